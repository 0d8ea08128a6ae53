"""PyTorch's operator database (`op_db`) run with Ternion: its sample inputs must have the same
results in Ternion and in PyTorch."""
