"""Small language models, adapters and a checkpoint."""
