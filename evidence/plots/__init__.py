"""Figures, drawn on axes you may bring yourself; readable in black and white."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..execution.lazy import offered

if TYPE_CHECKING:
    from .bridge import plot_bridge as plot_bridge
    from .calibration import plot_design as plot_design
    from .calibration import plot_reliability as plot_reliability
    from .components import plot_components as plot_components
    from .components import plot_modes as plot_modes
    from .corner import plot_corner as plot_corner
    from .draws import plot_autocorrelation as plot_autocorrelation
    from .draws import plot_draws as plot_draws
    from .draws import plot_ess as plot_ess
    from .draws import plot_trace as plot_trace
    from .efficiency import plot_calibration as plot_calibration
    from .efficiency import plot_efficiency as plot_efficiency
    from .efficiency import plot_logz_vs_time as plot_logz_vs_time
    from .efficiency import plot_scaling as plot_scaling
    from .evidence import plot_error as plot_error
    from .evidence import plot_islands as plot_islands
    from .evidence import plot_path as plot_path
    from .evidence import plot_result as plot_result
    from .evidence import plot_time as plot_time
    from .geometry import plot_density as plot_density
    from .geometry import plot_energy_error as plot_energy_error
    from .geometry import plot_metric as plot_metric
    from .geometry import plot_trajectory as plot_trajectory
    from .hyper import plot_hyper_draws as plot_hyper_draws
    from .hyper import plot_hyperparameters as plot_hyperparameters
    from .hyper import plot_intervals as plot_intervals
    from .hyper import plot_marginal as plot_marginal
    from .hyper import plot_search as plot_search
    from .hyper import plot_sensitivity as plot_sensitivity
    from .loo import plot_loo as plot_loo
    from .loo import plot_pit as plot_pit
    from .models import plot_comparison as plot_comparison
    from .models import plot_surface as plot_surface
    from .predictions import plot_class_prediction as plot_class_prediction
    from .predictions import plot_prediction as plot_prediction
    from .predictions import plot_replicates as plot_replicates

if not TYPE_CHECKING:  # type checkers read the imports above, and know what is missing
    _HOME, __getattr__, __dir__ = offered(__spec__)
    __all__ = sorted(_HOME)
