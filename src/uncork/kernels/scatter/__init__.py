"""Places that indices name: tensors with some of them replaced or joined with updates, and slices picked at them."""
