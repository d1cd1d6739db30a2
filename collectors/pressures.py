"""How long processes of this host waited for a CPU, memory or storage: pressure stall information, accounting/psi.rst.

It says whether a starved command suffers alone or with the whole host. Cost: 6 microseconds. Privilege: none. Cannot
see: {} on a kernel without CONFIG_PSI.
"""

from collectors.kernel import Kernel

RESOURCES = ("cpu", "memory", "io")


def read_pressures(kernel: Kernel) -> dict[str, int]:
    """Microseconds since boot in which somebody waited for it, by resource: the `some` line, total."""
    found = {}
    for resource in RESOURCES:
        line = (kernel.read(f"pressure/{resource}") or b"").partition(b"\n")[0]
        name, _, total = line.rpartition(b"total=")
        if name.startswith(b"some") and total.strip().isdigit():
            found[resource] = int(total)
    return found
