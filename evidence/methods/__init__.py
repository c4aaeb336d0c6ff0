"""Ways of estimating log Z, one file each: a ``Problem`` in, an ``Outcome`` out (``base``).

``registry`` lists them by name.
"""
