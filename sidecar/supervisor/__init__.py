"""One command's life: spawn, relay, signals, deadlines, link to the daemon. Standard library only."""
