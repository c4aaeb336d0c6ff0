"""Everything over hyperparameters θ: searches, integrals and chains, given the evidence at one θ.

Nothing here knows the public functions: they live in :mod:`evidence.verbs` and call down.

====================  =================================================================
:mod:`.at_theta`      EP and an unbiased estimate of the evidence at one θ
:mod:`.direct`        where that is a formula, or EP's, or latent values are few: a density over θ;
                      :mod:`.grouped` has the formula, of Gaussian models of groups, and
                      :mod:`.effects` integrates those of groups that EP has no answer for
:mod:`.search`        where EP's evidence is largest; :mod:`.findings` tells what was found
:mod:`.integral`      islands over θ; :mod:`.pilot` finds their start, with a
                      :mod:`.surrogate` of EP's evidence, and their ladder
:mod:`.chains`        chains over (x, θ) by one of the :mod:`.schemes`
====================  =================================================================
"""
