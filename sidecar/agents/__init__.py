"""How each coding agent is made to run its shell through the sidecar: `sidecar setup` and `sidecar doctor`."""
