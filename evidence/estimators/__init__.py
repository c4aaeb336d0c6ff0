"""Estimators with scikit-learn's interface, over EP and this package's evidence.

They import scikit-learn, so they are imported only when used.
"""
