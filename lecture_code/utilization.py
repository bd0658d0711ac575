"""How much of a machine a training run used: MFU, HFU, and days."""

from __future__ import annotations

from lecture_code.blocks import positive_int, positive_number
from lecture_code.hardware import Device, find_device
from lecture_code.transformer import attention_flop_per_token, training_flop_per_token

SECONDS_PER_DAY = 86_400

CAUSAL = {"full": 1.0, "half": 0.5}
"""How much of the T x T square of attention counts as the model's work."""


def model_flop_per_token(
    parameters: float,
    *,
    layers: int,
    heads: int,
    head_dim: int,
    context: int,
    causal: str = "full",
) -> float:
    """6 N + 12 L H Q T: what one token of training must cost, forward and backward.

    Parameters
    ----------
    parameters : float
        N, without the input embedding's table where it is only looked up.
    layers, heads, head_dim, context : int
        L, H, Q, T.
    causal : {"full", "half"}
        "full" counts all T keys for each query (PaLM's convention), "half" those a causal mask
        leaves.

    References
    ----------
    Chowdhery et al. 2022, PaLM, Appendix B.

    Examples
    --------
    >>> palm = dict(layers=118, heads=48, head_dim=256, context=2048)
    >>> round(model_flop_per_token(540.35e9, **palm) / 1e12, 3)
    3.278
    """
    if causal not in CAUSAL:
        raise ValueError(f"causal must be one of {sorted(CAUSAL)}, got {causal!r}")
    attention = attention_flop_per_token(
        layers=layers, heads=heads, head_dim=head_dim, context=context
    )
    return training_flop_per_token(parameters) + CAUSAL[causal] * attention


def mfu(
    *,
    tokens_per_s: float,
    flop_per_token: float,
    devices: int,
    device: Device | str,
    dtype: str = "float16",
    peak_flop_per_s: float | None = None,
) -> float:
    """Model FLOPs utilisation: the model's FLOP/s over the dense peak of all devices.

    Parameters
    ----------
    tokens_per_s : float
        Of the whole run, all devices together.
    flop_per_token : float
        What the model must do (:func:`model_flop_per_token`), not what the hardware did.
    devices : int
        How many.
    device : Device or str
        Which; an unknown name is an error, never a default.
    dtype : str
        The type the products ran in; it decides the peak.
    peak_flop_per_s : float, optional
        For a device whose clocks are not the datasheet's. Refused above the device's dense peak:
        NVIDIA's sparse figures are twice the dense ones and no training run can use them.

    Raises
    ------
    ValueError
        Unknown device or dtype, a peak above the dense one, or a result above 1 (usually tokens of
        the whole run divided by one device's peak).

    References
    ----------
    Chowdhery et al. 2022, PaLM, section 4.1 and Appendix B.

    Examples
    --------
    >>> run = dict(tokens_per_s=238.3e3, devices=6144, device="TPUv4", dtype="bfloat16")
    >>> round(mfu(flop_per_token=3.278e12, **run), 3)
    0.462
    """
    return _utilization(tokens_per_s, flop_per_token, devices, device, dtype, peak_flop_per_s)


def hfu(
    *,
    tokens_per_s: float,
    hardware_flop_per_token: float,
    devices: int,
    device: Device | str,
    dtype: str = "float16",
    peak_flop_per_s: float | None = None,
) -> float:
    """Hardware FLOPs utilisation: as :func:`mfu`, but counting recomputation as work.

    Examples
    --------
    >>> run = dict(tokens_per_s=238.3e3, devices=6144, device="TPUv4", dtype="bfloat16")
    >>> round(hfu(hardware_flop_per_token=4.10e12, **run), 3)
    0.578
    """
    return _utilization(
        tokens_per_s, hardware_flop_per_token, devices, device, dtype, peak_flop_per_s
    )


def recomputed_flop_per_token(parameters: float, fraction: float = 1.0) -> float:
    """FLOP a token when a ``fraction`` of the forward (2 N) is computed again: (6 + 2 fraction) N.

    >>> recomputed_flop_per_token(1.0) / training_flop_per_token(1.0) == 8 / 6
    True
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction must lie between 0 and 1, got {fraction}")
    return training_flop_per_token(parameters) * (1 + fraction / 3)


def train_days(*, tokens: float, tokens_per_s: float) -> float:
    """Days to see ``tokens`` at a constant rate.

    >>> round(train_days(tokens=780e9, tokens_per_s=238.3e3), 1)
    37.9
    """
    rate = positive_number("tokens_per_s", tokens_per_s)
    return positive_number("tokens", tokens) / rate / SECONDS_PER_DAY


def days_for_flop(flop: float, *, devices: int, achieved_flop_per_s: float) -> float:
    """Days to do ``flop`` on ``devices`` that each reach ``achieved_flop_per_s``.

    >>> round(days_for_flop(6 * 175e9 * 300e9, devices=992, achieved_flop_per_s=147e12), 1)
    25.0
    """
    rate = positive_number("achieved_flop_per_s", achieved_flop_per_s)
    flop = positive_number("flop", flop)
    return flop / (positive_int("devices", devices) * rate) / SECONDS_PER_DAY


def _utilization(tokens_per_s, flop_per_token, devices, device, dtype, peak_flop_per_s) -> float:
    found = find_device(device)
    dense = found.peak_flop_per_s(dtype)
    peak = dense
    if peak_flop_per_s is not None:
        peak = positive_number("peak_flop_per_s", peak_flop_per_s)
    if not peak <= dense * 1.001:
        raise ValueError(
            f"peak_flop_per_s must lie above 0 and at most at the dense {dtype} peak of "
            f"{found.name}, {dense:.4g}, got {peak:.4g}; a 2:4 sparse peak is twice the dense one"
        )
    tokens_per_s = positive_number("tokens_per_s", tokens_per_s)
    flop_per_token = positive_number("FLOP a token", flop_per_token)
    result = tokens_per_s * flop_per_token / (positive_int("devices", devices) * peak)
    if result > 1:
        raise ValueError(
            f"utilisation would be {result:.2f}, above 1: are tokens_per_s and devices of the same "
            "run, and is the peak that of the dtype that ran?"
        )
    return result
