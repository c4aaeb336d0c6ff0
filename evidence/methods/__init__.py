"""Ways of estimating log Z, one file each: a ``Problem`` in, an ``Outcome`` out (``base``).

``registry`` lists them by name.
"""

#: their names, known without the modules they are in
NAMES = ("auto", "smc", "ais", "importance", "guided", "pt", "arm", "orthant", "sequential")
