"""The command line: ``evidence demo``, ``estimate``, ``fit``, ``compare`` and ``predict``."""

from __future__ import annotations

import math
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import wraps
from inspect import Signature, signature
from json import dumps, loads
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn, get_type_hints

import typer

from .messages import InputError
from .methods import NAMES as METHODS
from .models.formulas import FAMILIES as _FAMILIES
from .models.likelihoods import NAMES as LIKELIHOODS
from .moves import NAMES as MOVES

if TYPE_CHECKING:
    import pandas as pd

    from .models.datasets import Dataset
    from .models.formulas.model import FormulaModel
    from .results.base import Result
    from .results.comparison import Comparison
    from .results.evidence import EvidenceResult
    from .results.summary import Summary

# Heavy imports wait until a command needs them: --help and usage errors are instant. Tables of
# names are light.

_BAD_INPUT = 2
_WARNED = 3
_EXIT_CODES = """Exit codes: 0 fine; 1 unexpected error; 2 bad input or a file that
cannot be written; 3 finished, but with warnings."""

app = typer.Typer(
    name="evidence", no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip


def _or(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}"


_HELP = {
    "formula": 'What explains what, e.g. "y ~ x + (1 | group)".',
    "formulas": 'Models to compare, e.g. "y ~ x" "y ~ x + (1 | group)".',
    "new": "A table of new rows.",
    "family": f"{_or(_FAMILIES)}.",
    "link": "logit, probit or cloglog, of bernoulli. [default: logit]",
    "predictor": "What explains a parameter of the family, as often as needed: 'sigma ~ x'.",
    "prior": "Instead of a default, as often as needed: 'sd(1|group)=halfnorm(scale=1)'. A number "
    "holds a hyperparameter: sigma=0.3.",
    "priors": "scaled, the defaults, or jzs: Cauchy priors of standardised effects.",
    "file": "A .csv, .tsv, .csv.gz, .tsv.gz or .parquet table.",
    "table": "Only write the data to this file (.csv).",
    "target": "Column to explain.",
    "kernel": 'Prior covariance, e.g. "4.0 * RBF(1.5)".',
    "features": "Columns to explain it from, a,b,c. [default: all others]",
    "drop": "Columns to leave out, a,b,c.",
    "standardise": "Scale features to mean 0 and standard deviation 1 (ddof 1).",
    "sep": "What is between columns of a text file. [default: by name]",
    "positive": "The label that counts as 1; the other, or all others, count as the opposite.",
    "levels": "Categories of an ordinal response in order, the lowest first: none,some,much; "
    "of a softmax, the baseline first.",
    "new_groups": "Rows of groups that the data lack: error, prior, or zero effects.",
    "likelihood": f'{_or(LIKELIHOODS)}, with parameters as in "student_t(df=4, scale=0.5)".',
    "method": f"{_or([*METHODS, 'ep', 'laplace'])}. (orthant, sequential: probit only)",
    "reference": "Where tempering starts: ep (the default), laplace or prior.",
    "move": f"Transition kernel: {_or(MOVES)}. [default: mgrad]",
    "target_se": "Standard error to stop at, in nats.",
    "max_seconds": "Stop then, with what is known.",
    "n_particles": "Particles per island, or draws (orthant).",
    "seed": "Same seed, same answer.",
    "checkpoint": "Keep what is computed here, and go on from it when it exists.",
    "out": "Save everything here (.npz; evidence.EvidenceResult.load reads it).",
    "plot": "Draw a figure here.",
    "json": "Print one JSON object and nothing else.",
    "quiet": "Print log Z and its error bar only; no progress bar.",
    "baseline": "The formula that Bayes factors are against. [default: the most probable]",
    "loo": "Leave-one-out predictions and stacking weights, too.",
    "report": "Print a paragraph for a paper.",
    "markdown": "Print the table in Markdown.",
}
_POSITIONAL = ("file", "formula", "formulas", "new")
_ALSO = {"family": ("--family", "--likelihood"), "likelihood": ("--likelihood", "--family")}
_MEANT = {"likelihood": "family", "random_seed": "seed"}  # what Python calls them
_KEYWORD = re.compile(r"\b([a-z_]+)=(?:'([^']*)'|([\w.]+))?(?![\w{(\"'])")
_FIRST = re.compile(r"^([a-z_]+)(?=: | must )")
_OPTIONS: ContextVar[dict[str, str]] = ContextVar("options of the running command")
# that are never said no to: --json, but not --no-json
_FLAGS = {"--json", "--quiet", "--loo", "--report", "--markdown"}


class _Regression(NamedTuple):
    """What all commands for regressions are told of them; the rest is a table and formulas."""

    family: str = "gaussian"
    link: str | None = None
    predictor: list[str] = []  # noqa: RUF012
    prior: list[str] = []  # noqa: RUF012
    priors: str | None = None
    sep: str | None = None
    positive: str | None = None
    levels: str | None = None

    def models(self, file: FilePath, formulas: list[str]) -> dict[str, FormulaModel]:
        """Models of formulas, which may come from anywhere and are no code here, and a table."""
        from .models.datasets import read_frame
        from .models.formulas.calls import PLAIN, check
        from .models.formulas.model import from_formulas
        from .models.formulas.parse import parse

        further = dict[str, str]()
        for text in self.predictor:
            word, tilde, right = (part.strip() for part in text.partition("~"))
            if not (tilde and word and right):
                raise InputError(f"--predictor must be 'name ~ terms', got {text!r}")
            further[word] = right
        for formula in (*formulas, *further.values()):
            check(formula)
        if len(set(formulas)) < len(formulas):
            raise InputError("formulas: one of them is given twice")
        frame = read_frame(file, self.sep)
        if self.positive is not None or self.levels is not None:
            self._label(frame, parse(formulas[0]).response)
        given = dict[str, str]()
        for text in self.prior:
            key, equals, value = text.partition("=")
            if not equals:
                raise InputError(f"--prior must be name=distribution, got {text!r}")
            given[key.strip()] = value.strip()
        if given and self.priors is not None:
            raise InputError(
                f"--priors {self.priors} is all of the priors; leave out --prior, or this"
            )
        return from_formulas(
            {formula: formula for formula in formulas}, frame, namespace=PLAIN, link=self.link,
            likelihood=self.family, priors=given or self.priors, predictors=further or None,
        )  # fmt: skip

    def _label(self, frame: pd.DataFrame, name: str) -> None:
        """Say what the labels of the response mean."""
        from pandas import CategoricalDtype

        from .models.formulas.families import family_name
        from .models.labels import as_written, in_order

        positive, levels = self.positive, self.levels
        option = "--positive" if levels is None else "--levels"
        if positive is not None and levels is not None:
            raise InputError("--positive and --levels both order the labels; give one")
        name = name.strip("`")
        if name not in frame.columns:
            raise InputError(f"{option} is for a response that is a column, not {name!r}")
        if levels is not None:
            if (meant := family_name(self.family)[0]) not in ("ordinal", "softmax", "bernoulli"):
                raise InputError(
                    f"--levels is for --family ordinal, softmax or bernoulli, not {meant}"
                )
            frame[name] = in_order(frame[name], levels)
            return
        labels = frame[name].dropna().map(as_written)
        if positive not in set(labels):
            raise InputError(f"--positive: column {name} has no {positive!r}")
        others = sorted({*labels} - {positive})
        rest = others[0] if len(others) == 1 else f"not {positive}"
        kind = CategoricalDtype([rest, positive] if others else [positive])
        frame[name] = labels.where(labels == positive, rest).astype(kind)


def _command(**own: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function: its arguments, explained by ``_HELP`` and ``own`` words.

    An argument ``regression`` stands for all that a :class:`_Regression` is told.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        hints, parameters = get_type_hints(function), [*signature(function).parameters.values()]
        regression = "regression" in hints
        if regression:
            at = [*hints].index("regression")
            parameters[at : at + 1] = signature(_Regression).parameters.values()
            hints |= get_type_hints(_Regression)
        for name in hints.keys() & _HELP.keys():
            kind, metavar = (
                (typer.Argument, name.upper()) if name in _POSITIONAL else (typer.Option, None)
            )
            words: dict[str, Any] = {"help": own.get(name, _HELP[name]), "metavar": metavar}
            names = _ALSO.get(name, _FLAGS & {f"--{name}"})
            hints[name] = Annotated[hints[name], kind(*names, **words)]
        named = hints.keys() & _HELP.keys() - {*_POSITIONAL}
        options = {name: f"--{name.replace('_', '-')}" for name in named}

        @wraps(function)
        def command(**given: object) -> None:
            _OPTIONS.set(options)
            if regression:
                told = [given.pop(name) for name in _Regression._fields]
                given["regression"] = _Regression._make(told)
            function(**given)

        command.__annotations__ = hints
        command.__signature__ = Signature(  # type: ignore[attr-defined]
            [one.replace(annotation=hints[one.name]) for one in parameters]
        )
        return app.command(epilog=_EXIT_CODES)(command)

    return register


def main() -> None:
    """Entry point of the ``evidence`` command."""
    app(prog_name="evidence")


def _version(wanted: bool) -> None:
    if wanted:
        from . import __version__

        typer.echo(f"evidence {__version__}")
        raise typer.Exit


@app.callback(epilog=_EXIT_CODES)
def _evidence(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it and exit.")
    ] = False,
) -> None:
    """Marginal likelihoods of latent Gaussian models, with error bars."""


@_command(plot="Where the figure goes.")
def demo(
    seed: int = 0,
    plot: FilePath = FilePath("evidence.png"),
    json: bool = False,
    target_se: float = 0.05,
    table: FilePath | None = None,
) -> None:
    """See what it does: a classification problem bundled with scikit-learn.

    Compares EP, corrected EP and Laplace with a Monte Carlo estimate that has an error bar,
    and draws the picture. It takes seconds. With --table it only writes the data, for a try of
    the other commands.

    \b
    Examples:
      evidence demo
      evidence demo --table patients.csv
    """
    with _input_errors():
        _check_outputs(plot=plot, table=table)
        from .models.datasets import load_demo

        data = load_demo()
    if table is not None:
        import pandas as pd

        names = [name.replace("worst ", "").replace(" ", "_") for name in data.features]
        frame = pd.DataFrame(data.X, columns=names).assign(benign=(data.y + 1) // 2)
        frame.round(4).to_csv(table, index=False)
        typer.echo(f"{len(frame)} patients, columns {', '.join(frame)}: {table}")
        raise typer.Exit
    if not json:
        typer.echo(f"data: {data.description}")
    words: dict[str, Any] = {"method": "auto", "random_seed": seed, "target_se": target_se}
    result, seconds = _run(data, data.kernel, "probit", **words)
    _report(result, seconds, json=json)
    if not json:
        typer.echo(_verdict(result))
    _finish(result, plot=plot, say=not json)


@_command(target_se=f"{_HELP['target_se']} [default: 0.05, unless --n-particles is given]")
def estimate(
    file: FilePath,
    target: str,
    kernel: str,
    features: str = "",
    drop: str = "",
    standardise: bool = True,
    sep: str | None = None,
    positive: str | None = None,
    likelihood: str = "probit",
    method: str = "auto",
    reference: str | None = None,
    move: str | None = None,
    target_se: float | None = None,
    max_seconds: float | None = None,
    n_particles: int | None = None,
    seed: int = 0,
    checkpoint: FilePath | None = None,
    out: FilePath | None = None,
    plot: FilePath | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Estimate the log marginal likelihood of a Gaussian process model of a table.

    Classification targets are -1 and +1, or 0 and 1, or two labels and --positive. ^C stops early
    and prints what is known.

    \b
    Examples (the first runs after "evidence demo --table patients.csv"):
      evidence estimate patients.csv --target benign --kernel "25.0 * RBF(0.5)"
      evidence estimate shop.parquet --target sales --drop id,date --likelihood poisson \\
          --kernel "RBF([1, 2]) + WhiteKernel(0.1)" --target-se 0.02 --plot shop.png
      evidence estimate heart.tsv.gz --target disease --positive yes --kernel "RBF(2)" --json
    """
    with _input_errors():
        _check_outputs(source=file, checkpoint=checkpoint, out=out, plot=plot)
        _check_positive(positive, likelihood)
        from .models.datasets import read_table

        data = read_table(
            file, target, features=_listed(features) or None, drop=_listed(drop),
            standardised=standardise, sep=sep, positive=positive,
        )  # fmt: skip
    result, seconds = _run(
        data, kernel, likelihood, method=method, reference=reference, move=move,
        checkpoint=checkpoint, target_se=target_se, max_seconds=max_seconds,
        n_particles=n_particles, random_seed=seed, progressbar=not quiet,
    )  # fmt: skip
    result.settings |= {
        "file": str(file), "target": target, "features": list(data.features),
        "standardise": standardise, "positive": positive,
    }  # fmt: skip
    _report(result, seconds, json=json, quiet=quiet)
    _finish(result, out=out, plot=plot, say=not (json or quiet))


@_command(plot="Draw the effects and hyperparameters here.")
def fit(
    file: FilePath,
    formula: str,
    regression: _Regression,
    target_se: float = 0.05,
    max_seconds: float | None = None,
    seed: int = 0,
    checkpoint: FilePath | None = None,
    out: FilePath | None = None,
    plot: FilePath | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Estimate the log evidence of a regression, and its effects.

    Hyperparameters are integrated out. Priors are proper and scaled to the data, unless --prior
    says otherwise.

    \b
    Examples (the first runs after "evidence demo --table patients.csv"):
      evidence fit patients.csv "benign ~ perimeter + concave_points" --family bernoulli
      evidence fit turtles.csv "y ~ x + (1 | clutch)" --family bernoulli --link probit
      evidence fit shop.csv "sales ~ price + (1 + price | shop)" --family poisson --json
      evidence fit trial.csv "pain ~ dose" --family ordinal --levels none,some,much
      evidence fit trips.csv "mode ~ distance" --family softmax --levels walk,bus,car
      evidence fit shop.csv "sales ~ price" --predictor "sigma ~ price"
    """
    started = time.perf_counter()
    with _input_errors():
        _check_outputs(source=file, checkpoint=checkpoint, out=out, plot=plot)
        (model,) = regression.models(file, [formula]).values()
        from .verbs import estimate as room
        from .verbs.summarise import summarise

        result = room.log_evidence(
            model, target_se=target_se, max_seconds=max_seconds, random_seed=seed,
            checkpoint=checkpoint, progressbar=not (quiet or json),
        )  # fmt: skip
    _report(result, time.perf_counter() - started, json=json, quiet=quiet)
    say = not (json or quiet)

    def effects() -> Summary:
        summary = summarise(model, result)
        if say:  # hyperparameters stand above
            shown = replace(summary, hyperparameters=summary.hyperparameters[:0])
            typer.echo("\n" + _as_typed(shown.summary()))
        return summary

    _finish(result, out=out, plot=plot, say=say, drawn=effects)


@_command(out="Save the comparison here (.npz; evidence.Comparison.load reads it).")
def compare(
    file: FilePath,
    formulas: list[str],
    regression: _Regression,
    target_se: float = 0.05,
    max_seconds: float | None = None,
    seed: int = 0,
    baseline: str | None = None,
    loo: bool = False,
    out: FilePath | None = None,
    plot: FilePath | None = None,
    json: bool = False,
    quiet: bool = False,
    report: bool = False,
    markdown: bool = False,
) -> None:
    """Compare regressions of one table by their evidence: Bayes factors and probabilities.

    All models have the rows in which none of them misses a value.

    \b
    Examples (the first runs after "evidence demo --table patients.csv"):
      evidence compare patients.csv "benign ~ perimeter" "benign ~ 1" --family bernoulli
      evidence compare turtles.csv "y ~ x" "y ~ x + (1 | clutch)" --family bernoulli
      evidence compare trial.csv "pain ~ dose" "pain ~ 1" --priors jzs
    """
    plain = json or quiet or report or markdown
    with _input_errors():
        _check_outputs(source=file, out=out, plot=plot)
        models = regression.models(file, formulas)
        from .verbs.compare import compare as run

        comparison = run(
            models, target_se=target_se, max_seconds=max_seconds, random_seed=seed, loo=loo,
            baseline=baseline, progressbar=not plain,
        )  # fmt: skip
    if json:
        rows, warnings = comparison.table.reset_index(), list(map(str, comparison.warnings))
        told = {"models": rows.to_dict("records"), "baseline": comparison.baseline}
        typer.echo(_finite(told | {"warnings": warnings, "notes": comparison.notes}))
    elif report or markdown:
        texts = [comparison.to_markdown()] * markdown + [comparison.report()] * report
        typer.echo("\n\n".join(texts))
    else:
        text = comparison.table.iloc[:, :6].to_string() if quiet else comparison.summary()
        typer.echo(_as_typed(text))
    _finish(comparison, out=out, plot=plot, say=not plain)


@_command(out="Write the table here (.csv). [default: the screen]")
def predict(
    file: FilePath,
    formula: str,
    new: FilePath,
    regression: _Regression,
    new_groups: str = "error",
    seed: int = 0,
    out: FilePath | None = None,
) -> None:
    """Predict new rows of a table by a regression, averaged over its hyperparameters.

    Writes the rows with their predictions beside them: mean, sd and 90 % interval of the linear
    predictor, mean and sd of a new response, probabilities of labels.

    \b
    Examples (the first runs after "evidence demo --table patients.csv"):
      evidence predict patients.csv "benign ~ perimeter" patients.csv --family bernoulli
      evidence predict shop.csv "sales ~ price + (1 | shop)" next.csv --family poisson
    """
    with _input_errors():
        _check_outputs(source=file, out=out)
        (model,) = regression.models(file, [formula]).values()
        from .models.datasets import read_frame
        from .prediction.predict import predict as run
        from .verbs.integrate import integrated_evidence

        words: dict[str, Any] = {"target_se": 0.1, "random_seed": seed, "progressbar": False}
        posterior = None if model.priors is None else integrated_evidence(model, **words)
        rows = read_frame(new, regression.sep)
        found = run(model, rows, posterior=posterior, new_groups=new_groups).to_frame()
        found.columns = [f"{name}_predicted" if name in rows else name for name in found]
        table = rows.reset_index(drop=True).join(found)
        text = table.to_csv(out, index=False, float_format=None if out else "%.6g")
    for note in model.notes:
        typer.echo(_as_typed(f"note: {note}"), err=True)
    if text is not None:
        typer.echo(text, nl=False)


def _run(
    data: Dataset, kernel: str, likelihood: str, **options: Any
) -> tuple[EvidenceResult, float]:
    """The result and the seconds it took, model included."""
    started = time.perf_counter()
    with _input_errors():
        from .models.gp import GPModel
        from .verbs import estimate as room

        model = GPModel(data.X, data.y, kernel=kernel, likelihood=likelihood)
        result = room.log_evidence(model, **options)
    return result, time.perf_counter() - started


def _report(result: EvidenceResult, seconds: float, *, json: bool, quiet: bool = False) -> None:
    if json:
        typer.echo(_as_json(result, seconds))
    elif quiet:
        typer.echo(result.summary().splitlines()[0])
        for warning in result.warnings:
            typer.echo(_as_typed(f"WARNING: {warning}"), err=True)
    else:
        typer.echo(_as_typed(result.summary()))


def _as_typed(text: str) -> str:
    """Keywords of Python as options of the command that runs: method='smc' is --method smc, and
    "target_se must be …" is about --target-se."""
    options = _OPTIONS.get({})

    def option(match: re.Match[str]) -> str:
        name = match[1] if match[1] in options else _MEANT.get(match[1], "")
        value = " ".join(filter(None, match.groups()[1:]))
        return f"{options[name]} {value}".rstrip() if name in options else match[0]

    return _FIRST.sub(option, _KEYWORD.sub(option, text))


def _as_json(result: EvidenceResult, seconds: float) -> str:
    """One object with all that there is."""
    return _finite({
        "logz": result.logz, "logz_se": result.logz_se, "method": result.method,
        "estimates": result.estimates.to_dict("index"), "warnings": result.warnings,
        "warning_codes": [warning.code for warning in result.warnings], "notes": result.notes,
        "settings": result.settings, "model": result.model, "seconds": seconds,
    })  # fmt: skip


def _finite(plain: dict[str, Any]) -> str:
    """As JSON; what is no finite number is null."""
    finite = loads(dumps(plain, default=float), parse_constant=lambda constant: None)
    return dumps(finite, allow_nan=False, ensure_ascii=False)


def _verdict(result: EvidenceResult) -> str:
    """How far the approximations are from the Monte Carlo estimate, in words."""
    if not (math.isfinite(result.logz) and result.logz_se > 0.0):
        return ""
    gaps = {r.method: r.logz - result.logz for r in result.rows if r.method != result.method}
    lines = [
        f"  {name:<13}{abs(gap):5.2f} nats too {'low' if gap < 0 else 'high'}"
        f" ({abs(gap) / result.logz_se:.3g} standard errors)"
        for name, gap in gaps.items()
    ]
    return "\n".join(["", "against the Monte Carlo estimate:", *lines])


# -- files ----------------------------------------------------------------------------------


def _check_outputs(source: FilePath | None = None, **outputs: FilePath | None) -> None:
    """Find out before the run, not after it, that a file cannot be written."""
    taken = {"FILE": source} if source else {}
    for option, path in ((f"--{name}", path) for name, path in outputs.items() if path):
        for other, used in taken.items():
            if path.resolve() == used.resolve():
                raise InputError(f"{option}: {path} is {other} already")
        taken[option] = path
        if path.is_dir():
            raise InputError(f"{option}: {path} is a folder")
        if not path.parent.is_dir():
            raise InputError(f"{option}: there is no folder {path.parent}")
        try:
            with tempfile.TemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            raise InputError(
                f"{option}: cannot write to {path.parent}: {error.strerror}"
            ) from None
        if path.exists() and not os.access(path, os.W_OK):
            raise InputError(f"{option}: cannot write to {path}: it is read-only")
    if plot := outputs.get("plot"):
        from matplotlib.backend_bases import FigureCanvasBase

        known = FigureCanvasBase.get_supported_filetypes()
        if plot.suffix.lower().removeprefix(".") not in known:
            raise InputError(
                f"--plot: {plot} must end in .png, .pdf, .svg or another format of Matplotlib"
            )


def _check_positive(positive: str | None, likelihood: str) -> None:
    from .models.likelihoods import get

    if positive is not None and not hasattr(get(likelihood), "probability"):
        raise InputError(
            f"--positive is for likelihood probit, logit or cloglog, got {likelihood}"
        )


def _finish(
    result: EvidenceResult | Comparison, *, out: FilePath | None = None,
    plot: FilePath | None = None, say: bool, drawn: Callable[[], Result] | None = None,
) -> NoReturn:  # fmt: skip
    """Write files, and end with a code that tells of warnings; the figure is of what ``drawn``
    makes (once the result is safe), or of the result."""
    written = []
    with _input_errors():  # a full disk, say; the answer is on the screen already
        if out is not None:
            result.save(out)
            written.append(f"result: {out}")
        shown = drawn() if drawn and (say or plot is not None) else result
        if plot is not None:
            import matplotlib

            matplotlib.use("Agg")  # a file is wanted, whatever the display
            shown.plot(path=plot)
            written.append(f"figure: {plot}")
    if say and written:
        typer.echo("\n" + "\n".join(written))
    raise typer.Exit(_WARNED if result.warnings else 0)


def _listed(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


# -- endings --------------------------------------------------------------------------------


@contextmanager
def _input_errors() -> Iterator[None]:
    """What is wrong with the input becomes one line; anything else keeps its traceback."""
    try:
        yield
    except (InputError, OSError, MemoryError) as error:
        text = str(error)
        if isinstance(error, OSError) and error.strerror:
            text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        typer.echo(f"error: {_as_typed(' '.join(text.split()))}", err=True)
        raise typer.Exit(_BAD_INPUT) from None
