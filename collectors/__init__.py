"""The senses: what the kernel says about a silent command."""
