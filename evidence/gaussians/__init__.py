"""A Gaussian prior times Gaussian sites behind one contract, however the prior is stored.

``base`` states the contract as equations, ``dense`` implements it for a covariance matrix.
Everything above (EP, Laplace's method, gradients, guided draws, prediction) needs ``base`` only.
"""
