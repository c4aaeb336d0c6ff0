"""What weights and chains say: diagnostics, resampling, ladders. It knows no model."""
