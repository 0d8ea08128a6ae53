"""Why results differ from PyTorch's, where they do on purpose: (entry, kind) -> reason."""

REASONS = {}
