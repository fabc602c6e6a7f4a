"""What ``y.backward(v)`` does, shown on your own function."""
