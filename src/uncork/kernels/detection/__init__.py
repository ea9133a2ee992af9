"""Boxes taken one after the other, without those that overlap one taken before."""
