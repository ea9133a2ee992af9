"""Tensors made of few numbers: OneHot and Range."""
