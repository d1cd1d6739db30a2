"""Every state of the table of verdicts, staged for real, and the verdicts that came of it.

`scenario.py` says what a scenario is, `stage.py` puts one on, `helpers.py` is what is around a command, `host.py`
stands for the supervisor, `kinds/` has the scenarios themselves, by kind, and `programs/` what they run.
`python -m tests.verdicts.matrix` runs them all.
"""
