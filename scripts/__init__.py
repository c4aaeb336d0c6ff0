"""The laboratory: figures and tables that this package's claims rest on.

``papers``       figures and tables of the literature, run again beside the published numbers
``benchmarks``   how honest, how fast, how laid out: this package against itself and the truth
``rivals``       other packages on the same problems
``figures``      what of all that is shown in the README

From the folder that holds ``scripts``, ``python -m scripts.papers.figure1_trajectories --fast``
runs one of them; ``--out`` names the folder for its tables and figures. ``scripts/run_all.py``
runs all; what they share is in ``laboratory.py``.
"""
