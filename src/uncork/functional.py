"""The operations on plain arrays, as in `torch.nn.functional`."""
