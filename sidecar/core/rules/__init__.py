"""The rules behind a verdict: what moved, what each thread, process and tree waits for, and who for whom."""
