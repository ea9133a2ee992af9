"""Kernels that choose boxes: NonMaxSuppression and DetectionOutput."""
