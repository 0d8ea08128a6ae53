"""PyTorch's database of operators (`op_db`), run against Ternion: its sample inputs, in Ternion and in PyTorch, with the same results."""
