"""mGrad here against BlackJAX's ``mgrad_gaussian``: min ESS per second on the same targets.

    pip install blackjax
    python -m scripts.rivals.mgrad_vs_blackjax --data heart german

Both sample the same logistic Gaussian-process posteriors with the same number of chains. BlackJAX
runs compiled, in double precision, its chains vectorised, its step size adapted to the same
acceptance beforehand; compilation is not counted. It is given both Gaussian bases too: the prior,
and EP's q with the rest of the log density as its likelihood.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd

import evidence as ev
from evidence.approximations.reference import prior_reference
from evidence.statistics import diagnostics
from evidence.statistics.adaptation import DualAveraging
from scripts import laboratory

NAME = "mgrad_vs_blackjax"


def blackjax_run(path: ev.Path, options: argparse.Namespace) -> tuple[float, float, float, float]:
    """Seconds, min ESS, acceptance and step size."""
    import jax
    import jax.numpy as jnp
    from blackjax.mcmc import marginal_latent_gaussian as mlg

    jax.config.update("jax_enable_x64", True)
    base = path.reference
    y = jnp.asarray(path.model.y)
    _, nu, tau = (jnp.asarray(s) for s in base.sites)
    mean = jnp.asarray(base.mean)

    def tilt(x):  # type: ignore[no-untyped-def]
        x = mean + x  # its own ``mean=`` option does the same by a linear term
        return jnp.sum(-jax.nn.softplus(-y * x) - nu * x + 0.5 * tau * x * x)

    svd = mlg.svd_from_covariance(jnp.asarray(base.cov))
    kernel = mlg.build_kernel(svd)
    rng = np.random.default_rng(options.seed)
    z = rng.standard_normal((options.chains, path.n))
    start = jnp.asarray(z @ path.coordinates("base").T.T)
    keys = jax.random.split(jax.random.key(options.seed), options.chains)

    def chain(key, state, step_size, n):  # type: ignore[no-untyped-def]
        def one(state, key):  # type: ignore[no-untyped-def]
            state, info = kernel(key, state, tilt, step_size)
            return state, (state.position, info.acceptance_rate)

        return jax.lax.scan(one, state, jax.random.split(key, n))

    run = jax.jit(jax.vmap(chain, in_axes=(0, 0, None, None)), static_argnums=3)
    states = jax.vmap(lambda x: mlg.init(x, tilt, svd.U_t))(start)
    tuner = DualAveraging(float(base.var.mean()) * 0.5, target=0.55)
    block = 20
    for i in range(options.tune // block):
        fold = jax.vmap(lambda k, i=i: jax.random.fold_in(k, i))(keys)
        states, (_, accept) = run(fold, states, tuner.step_size, block)
        tuner.update(float(accept.mean()))
    step = tuner.final
    jax.block_until_ready(run(keys, states, step, options.draws))  # compile
    started = time.perf_counter()
    _, (x, accept) = jax.block_until_ready(run(keys, states, step, options.draws))
    seconds = time.perf_counter() - started
    return seconds, float(diagnostics.ess(np.asarray(x)).min()), float(accept.mean()), step


def evidence_run(
    model: ev.GPModel, reference: object, options: argparse.Namespace
) -> tuple[float, float, float, float]:
    """The same from this package."""
    draws = ev.sample(
        model,
        move="mgrad",
        reference=reference,
        draws=options.draws,
        tune=options.tune,
        chains=options.chains,
        random_seed=options.seed,
        progressbar=False,
    )
    return draws.seconds, draws.ess.min, float(draws.acceptance.mean()), draws.step_size


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--data", nargs="+", default=["heart", "german"])
    parser.add_argument("--draws", type=int, default=5000)
    parser.add_argument("--tune", type=int, default=2000)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    if options.fast:
        options.data, options.draws, options.tune = ["simulated"], 200, 200
    rows = []
    for name in options.data:
        simulated = laboratory.simulated_model("logit")
        model = simulated if options.fast else laboratory.research_model(name, "logit")
        print(f"{name}: N = {model.n}, {options.chains} chains of {options.draws} draws")
        for fit in (prior_reference, ev.fit_ep):
            reference = fit(model)
            path = ev.Path(reference)
            speeds: dict[str, list[float]] = {"evidence": [], "blackjax": []}
            for _ in range(options.repeats):  # alternate, so that drift hits both
                for who in speeds:
                    found = (
                        evidence_run(model, reference, options)
                        if who == "evidence"
                        else blackjax_run(path, options)
                    )
                    seconds, ess, accept, step = found
                    speeds[who].append(ess / seconds)
                    rows.append((name, reference.name, who, seconds, ess, accept, step))
                    print(
                        f"  base {reference.name:6} {who:9} {seconds:7.2f} s  min ESS {ess:8.1f}"
                        f"  min ESS/s {ess / seconds:8.1f}  accept {accept:.2f}  step {step:.4g}"
                    )
            ratio = np.median(speeds["evidence"]) / np.median(speeds["blackjax"])
            print(f"  base {reference.name:6} ratio {ratio:.2f}")
    columns = ["data", "base", "package", "seconds", "min_ess", "acceptance", "step_size"]
    laboratory.save_table(pd.DataFrame(rows, columns=columns), options.out, NAME)


if __name__ == "__main__":
    main()
