"""Figures, drawn on axes you may bring yourself; readable in black and white."""

from .class_predictions import plot_class_prediction
from .draws import plot_autocorrelation, plot_draws, plot_ess, plot_trace
from .efficiency import plot_calibration, plot_efficiency, plot_logz_vs_time, plot_scaling
from .evidence import plot_path, plot_result, plot_time
from .geometry import plot_density, plot_energy_error, plot_metric, plot_trajectory
from .hyper import plot_hyper_draws, plot_hyperparameters, plot_marginal
from .models import plot_comparison, plot_surface
from .moves import plot_ess_vs_acceptance, plot_moves
from .optimum import plot_search
from .predictions import plot_prediction

__all__ = [
    "plot_autocorrelation",
    "plot_calibration",
    "plot_class_prediction",
    "plot_comparison",
    "plot_density",
    "plot_draws",
    "plot_efficiency",
    "plot_energy_error",
    "plot_ess",
    "plot_ess_vs_acceptance",
    "plot_hyper_draws",
    "plot_hyperparameters",
    "plot_logz_vs_time",
    "plot_marginal",
    "plot_metric",
    "plot_moves",
    "plot_path",
    "plot_prediction",
    "plot_result",
    "plot_scaling",
    "plot_search",
    "plot_surface",
    "plot_time",
    "plot_trace",
    "plot_trajectory",
]
