"""The daemon: one per user and host. Owns everything that must outlive one command."""
