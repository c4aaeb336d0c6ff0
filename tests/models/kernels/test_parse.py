"""Kernel expressions: what they build, and what is refused in which words."""

import inspect

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sk

from evidence import GPModel, InputError, parse_kernel
from evidence.models.kernels.parse import _NAMES

READ = [
    ("4.0 * RBF(1.5)", 4.0 * sk.RBF(1.5)),
    ("RBF(1.5) * 4", sk.RBF(1.5) * 4.0),
    ("ConstantKernel(2.0)", sk.ConstantKernel(2.0)),
    ("2", sk.ConstantKernel(2.0)),
    ("1e-3 + RBF()", 1e-3 + sk.RBF()),
    ("-(-(1 + 2) / 2 - .5) * RBF(+1)", 2.0 * sk.RBF(1.0)),
    (
        "1.0**2 * RBF(length_scale=[1.0, 2.0]) + WhiteKernel(0.1)",
        1.0 * sk.RBF([1.0, 2.0]) + sk.WhiteKernel(0.1),
    ),
    ("RBF((1, 2))", sk.RBF([1.0, 2.0])),
    ("RBF(2) * Matern(length_scale=1.0, nu=1.5)", sk.RBF(2.0) * sk.Matern(1.0, nu=1.5)),
    ("RBF(1) ** 2", sk.RBF(1.0) ** 2.0),
    (" (RBF(1) +\n DotProduct(0)) ", sk.RBF(1.0) + sk.DotProduct(0.0)),
    ("ExpSineSquared(1, periodicity=2)", sk.ExpSineSquared(1.0, 2.0)),
    ("RationalQuadratic(1, 0.5)", sk.RationalQuadratic(1.0, 0.5)),
    ("RBF(1, 'fixed')", sk.RBF(1.0, "fixed")),
    ("RBF(1, length_scale_bounds=(1e-2, 10))", sk.RBF(1.0, (1e-2, 10.0))),
    ("PairwiseKernel(0.5, metric='laplacian')", sk.PairwiseKernel(0.5, metric="laplacian")),
]

REFUSED = [
    ("", "kernel: the expression is empty"),
    ("RBF(1", "kernel: cannot read 'RBF(1': '(' was never closed at character 4"),
    ("RBF(1) RBF(2)", "at character 8"),
    ("a\0b", "null bytes"),
    ("RFB(1)", "unknown name 'RFB'; did you mean 'RBF'? Known: ConstantKernel, DotProduct"),
    ("rbf(1)", "did you mean 'RBF'?"),
    ("squared_exponential(1)", "did you mean 'RBF'?"),
    ("White(1)", "did you mean 'WhiteKernel'?"),
    ("__import__('os').system('true')", "kernel: cannot use"),
    ("__import__('os')", "unknown name '__import__'. Known"),
    ("exp(1) * RBF(1)", "unknown name 'exp'"),
    ("RBF", "RBF needs brackets"),
    ("RBF.__class__", "cannot use 'RBF.__class__'; only numbers, + * ** and kernel calls"),
    ("RBF(1).theta", "only numbers, + * **"),
    ("RBF(1)(2)", "only numbers, + * **"),
    ("(lambda: 1)()", "only numbers, + * **"),
    ("[x for x in (1, 2)]", "only numbers, + * **"),
    ("1 if 2 else 3", "only numbers, + * **"),
    ("f'{1}'", "only numbers, + * **"),
    ("1or 2", "only numbers, + * **"),
    ("(1, 2)", "only numbers, + * **"),
    ("True * RBF(1)", "cannot use 'True'"),
    ("1j * RBF(1)", "cannot use '1j'"),
    ("RBF(1) - RBF(2)", "cannot use 'RBF(1) - RBF(2)'"),
    ("RBF(1) / 2", "cannot use 'RBF(1) / 2'"),
    ("2 ** RBF(1)", "cannot use '2 ** RBF(1)'"),
    ("-RBF(1)", "cannot use '-RBF(1)'"),
    ("-1 * RBF(1)", "'-1' must be a positive number"),
    ("0 * RBF(1)", "'0' must be a positive number"),
    ("RBF(0)", "'0' must be a positive number"),
    ("RBF([1, -2])", "'-2' must be a positive number"),
    ("RBF(RBF(1))", "'RBF(1)' must be a positive number"),
    ("1 / 0", "'1 / 0' is not a finite real number"),
    ("9**9**9**9", "is not a finite real number"),
    ("(-1)**.5 * RBF(1)", "is not a finite real number"),
    ("1" * 1900, "is not a finite real number"),
    ("RBF('1')", "length_scale of RBF must be a number, got \"'1'\""),
    ("RBF([])", "length_scale of RBF must be a number, got '[]'"),
    ("WhiteKernel([1, 2])", "noise_level of WhiteKernel must be a number"),
    ("RationalQuadratic([1, 2])", "length_scale of RationalQuadratic must be a number"),
    ("RBF(lengthscale=1)", "no parameter 'lengthscale'; did you mean 'length_scale'? It takes"),
    ("RBF(1, 2, 3)", "takes at most 2 arguments (length_scale, length_scale_bounds), got 3"),
    ("RBF(1, length_scale=2)", "RBF got length_scale twice"),
    ("RBF(1, 'fxied')", "length_scale_bounds of RBF must be 'fixed' or a pair of numbers"),
    ("RBF(*[1])", "cannot use 'RBF(*[1])'"),
    ("RBF(**{'length_scale': 1})", "cannot use"),
    ("PairwiseKernel(metric='rfb')", "metric of PairwiseKernel must be one of"),
    ("PairwiseKernel(pairwise_kernels_kwargs=1)", "no parameter"),
    ("-" * 1990 + "1", "nested too deeply"),
    ("(" * 500 + "1" + ")" * 500, "kernel: "),
    ("1 + " * 1000 + "1", "4001 characters are too many"),
]


@pytest.mark.parametrize(("text", "kernel"), READ)
def test_reads(text, kernel):
    assert parse_kernel(text) == kernel
    X = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_array_equal(parse_kernel(text)(X), kernel(X))


@pytest.mark.parametrize("kernel", [kernel for _, kernel in READ if "Pairwise" not in str(kernel)])
def test_reads_what_scikit_learn_prints(kernel):
    assert str(parse_kernel(str(kernel))) == str(kernel)


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_refuses(text, message):
    with pytest.raises(ValueError, match=r"^kernel: ") as caught:
        parse_kernel(text)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("value", [None, 3, b"RBF(1)"])
def test_refuses_what_is_no_string(value):
    with pytest.raises(ValueError, match="kernel: expected a string"):
        parse_kernel(value)


def test_knows_every_kernel_of_scikit_learn():
    built_from_others = {"CompoundKernel", "Exponentiation", "Kernel", "KernelOperator"}
    built_from_others |= {"Product", "Sum"}
    public = {
        name
        for name, cls in vars(sk).items()
        if inspect.isclass(cls) and issubclass(cls, sk.Kernel) and not name.startswith("_")
    }
    assert public - built_from_others == set(_NAMES)


def test_model_takes_an_expression():
    X = [[0.0], [1.0], [2.0]]
    model = GPModel(X, [1, -1, 1], kernel="4.0 * RBF(1.5)")
    expected = 4.0 * np.exp(-((np.subtract.outer(X, X).squeeze()) ** 2) / (2 * 1.5**2))
    np.testing.assert_allclose(model.K - model.jitter * np.eye(3), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("np.float64(0.83) * RBF(1.0)", "0.83 * RBF(1.0)"),
        ("RBF(np.float64(2.0))", "RBF(2.0)"),
        ("numpy.int64(2)**2 * RBF([np.float32(1.5), 2])", "2**2 * RBF([1.5, 2])"),
        (
            "Matern(length_scale=np.float64(1.0), nu=np.float64(1.5))",
            "Matern(length_scale=1.0, nu=1.5)",
        ),
        ("RBF(1.0, (np.float64(0.1), np.float64(9.0)))", "RBF(1.0, (0.1, 9.0))"),
    ],
)
def test_numbers_as_numpy_prints_them(text, plain):
    assert parse_kernel(text) == parse_kernel(plain)


@pytest.mark.parametrize(
    "text", ["np.load(1.0) * RBF(1.0)", "os.float64(1.0) * RBF(1.0)", "np.float64(1, 2) * RBF(1)",
             "np.float64(RBF(1.0))", "np.float64(x=1.0) * RBF(1.0)", "np.float64(-1) * RBF(1.0)"]
)  # fmt: skip
def test_nothing_else_of_numpy_is_understood(text):
    with pytest.raises(InputError, match="kernel: "):
        parse_kernel(text)


def test_numbers_of_numpy_times_a_kernel_are_kernels():
    kernel = np.float64(0.83) * sk.RBF(1.0)
    model = GPModel([[0.0], [1.0]], [1, -1], kernel)
    assert model.kernel.k1.constant_value == 0.83
