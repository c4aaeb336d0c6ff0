"""A Gaussian prior times Gaussian sites, behind one contract."""
