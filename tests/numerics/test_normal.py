"""Normals in vector instructions: the transformation itself, and what comes out of it."""

import numpy as np
import pytest
from scipy import stats

from evidence.numerics.normal import _MANY, LANES, _box_muller, fill_uniforms, standard_normal

EDGES = [0.0, 2.0**-53, 0.124, 0.125, 0.126, 0.375, 0.5, 0.625, 0.875, 1.0 - 2.0**-53]


def plain(u, v):
    """Box and Muller's formula."""
    radius = np.sqrt(-2.0 * np.log1p(-u))
    return radius * np.cos(2.0 * np.pi * v), radius * np.sin(2.0 * np.pi * v)


@pytest.mark.interpreted
def test_the_transformation_is_box_and_mullers():
    rng = np.random.default_rng(0)
    u = np.concatenate([np.repeat(EDGES, len(EDGES)), rng.random(200)])
    v = np.concatenate([np.tile(EDGES, len(EDGES)), rng.random(200)])
    first, second = plain(u, v)
    _box_muller(u, v)
    np.testing.assert_allclose(u, first, atol=1e-14)
    np.testing.assert_allclose(v, second, atol=1e-14)


def xoshiro(state, count):
    """xoshiro256++ as published, with whole numbers; the states of one lane, and its outputs."""
    mask = 2**64 - 1

    def rotate(x, k):
        return ((x << k) | (x >> (64 - k))) & mask

    s, out = [int(word) for word in state], []
    for _ in range(count):
        out.append((rotate((s[0] + s[3]) & mask, 23) + s[0]) & mask)
        t = (s[1] << 17) & mask
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate(s[3], 45)
    return s, out


@pytest.mark.interpreted
def test_every_lane_is_xoshiro():
    seeds = np.random.default_rng(3).integers(2**64, size=(4, LANES), dtype=np.uint64)
    lanes, u = seeds.copy(), np.empty((5, LANES))
    with np.errstate(over="ignore"):
        fill_uniforms(lanes, u.reshape(-1))
    for j in range(LANES):
        state, out = xoshiro(seeds[:, j], len(u))
        assert [int(word) for word in lanes[:, j]] == state
        assert list(u[:, j]) == [(bits >> 12) * 2.0**-52 for bits in out]


@pytest.mark.interpreted
@pytest.mark.parametrize("size", [_MANY - 1, _MANY, _MANY + 1, 2 * _MANY + 37])
def test_no_number_is_forgotten_or_made_twice(size):
    z = standard_normal(np.random.default_rng(4), (size,))
    assert len(np.unique(z)) == size
    assert np.abs(z).max() < 9.0


def test_numbers_are_standard_normal_and_pairs_independent():
    """Kolmogorov-Smirnov and two correlations: a false alarm in 10⁴ runs each."""
    z = standard_normal(np.random.default_rng(1), (2, 200_000))
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-4
    limit = 3.9 / np.sqrt(z.shape[1])
    assert abs(np.mean(z[0] * z[1])) < limit
    assert abs(np.mean((z[0] ** 2 - 1.0) * (z[1] ** 2 - 1.0)) / 2.0) < limit
    tail = np.mean(np.abs(z) > 3.5) / (2.0 * stats.norm.sf(3.5))
    assert 0.7 < tail < 1.35  # 186 are expected


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (3, 5), (2, 3, 7)])
def test_any_shape_is_filled_and_the_generator_goes_on(shape):
    rng = np.random.default_rng(2)
    z, again = standard_normal(rng, shape), standard_normal(rng, shape)
    assert z.shape == shape
    assert z.flags.c_contiguous
    assert np.all(np.isfinite(z))
    assert z.size == 0 or not np.any(z == again)
    np.testing.assert_array_equal(z, standard_normal(np.random.default_rng(2), shape))
