"""Number formats of 8 and fewer bits: every code, and every number at which rounding changes,
compared with the package `ml_dtypes`."""

import numpy as np
import pytest

import ternion
from ternion import formats

from devices import other_device

FLOATS = [name for name in formats.FORMATS if name.startswith("float")]
SIGNED = [name for name in FLOATS if name != "float8_e8m0fnu"]
WHOLE = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}
BITS = {**{name: 8 for name in FLOATS}, "float4_e2m1fn": 4, "int4": 4, "uint4": 4, "int2": 2, "uint2": 2}
LARGEST = {"float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0, "float8_e5m2": 57344.0, "float8_e5m2fnuz": 57344.0, "float4_e2m1fn": 6.0}
# A scale has no sign and no zero. Between 2^-127 and 2^-126, below float32's normal numbers,
# `ml_dtypes` rounds up. Separate tests cover these.
LEAST_SCALE = 2.0**-126


@pytest.fixture(params=["cpu", "other"])
def device(request):
    return "cpu" if request.param == "cpu" else other_device()


def array_dtype(name):
    """Returns the dtype of `ml_dtypes` for a format. Skips the test if the package is not
    installed."""
    return np.dtype(getattr(pytest.importorskip("ml_dtypes"), name))


def codes_of(name):
    return np.arange(2 ** BITS[name], dtype=np.uint8)


def numbers_of(name):
    """Returns all finite numbers of a format in order, by `ml_dtypes`."""
    numbers = codes_of(name).view(array_dtype(name)).astype(np.float64)
    return np.unique(numbers[np.isfinite(numbers)])


def encoded(array, name, device="cpu", **options):
    return formats.encode(ternion.tensor(array, device=device), name, **options).cpu().numpy()


def by_ml_dtypes(array, name):
    with np.errstate(all="ignore"):
        return array.astype(array_dtype(name)).view(np.uint8)


def low_bits(array, name):
    """Returns the codes of truncated numbers. Codes of numbers inside an integer format are checked
    to be those of `ml_dtypes`. Outside of it version 0.6 of `ml_dtypes` takes the low bits, and
    0.7 returns 0."""
    low, high = WHOLE[name]
    finite = np.where(np.isfinite(array), array, 0).astype(np.int64)
    codes = (finite % 2 ** BITS[name]).astype(np.uint8)
    inside = (finite >= low) & (finite <= high) & np.isfinite(array)
    np.testing.assert_array_equal(codes[inside], by_ml_dtypes(array[inside], name))
    return codes


def turning_points(name, dtype):
    """Returns all numbers of a format, the midpoints between them, numbers beyond the largest one,
    and the neighbors of all of these in a dtype."""
    numbers = numbers_of(name)
    middles = (numbers[1:] + numbers[:-1]) / 2
    beyond = numbers[-1] + (numbers[-1] - numbers[-2]) / 2
    with np.errstate(over="ignore"):
        points = np.concatenate([numbers, middles, [beyond, 4 * beyond, -beyond, -4 * beyond]]).astype(dtype)
    points = np.concatenate([points, np.nextafter(points, dtype(np.inf)), np.nextafter(points, dtype(-np.inf))])
    return points[points >= LEAST_SCALE] if name == "float8_e8m0fnu" else points


# ---- Decoding


@pytest.mark.parametrize("name", formats.FORMATS)
def test_every_code_decodes(name, device):
    codes = codes_of(name)
    expected = codes.view(array_dtype(name)).astype(np.float32)
    actual = formats.decode(ternion.tensor(codes, device=device), name).cpu().numpy()
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(np.signbit(actual)[~np.isnan(expected)], np.signbit(expected)[~np.isnan(expected)])


@pytest.mark.parametrize("name", formats.FORMATS)
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_decodes_to_a_dtype(name, dtype):
    bits = ternion.tensor(codes_of(name))
    actual = formats.decode(bits, name, getattr(ternion, dtype))
    assert actual.dtype == getattr(ternion, dtype)
    expected = formats.decode(bits, name).to(actual.dtype)
    np.testing.assert_array_equal(actual.double().numpy(), expected.double().numpy())


@pytest.mark.parametrize("name", WHOLE)
def test_integers_decode_to_integers(name, device):
    low, high = WHOLE[name]
    result = formats.decode(ternion.tensor(codes_of(name), device=device), name, ternion.int8)
    assert result.dtype == ternion.int8 and result.tolist() == [*range(high + 1), *range(low, 0)]


def test_only_the_low_bits_count():
    assert formats.decode(ternion.tensor([0x0F, 0xFF, 0x3F], dtype=ternion.uint8), "int4").tolist() == [-1, -1, -1]
    assert formats.decode(ternion.tensor([0x92], dtype=ternion.uint8), "float4_e2m1fn").tolist() == [1.0]


# ---- Encoding


def assert_same_codes(actual, expected, numbers, name):
    """Checks that codes are equal. NaN has a separate test, because its sign, which `ml_dtypes`
    preserves, is lost."""
    valid = ~np.isnan(numbers)
    wrong = valid & (actual != expected)
    assert not wrong.any(), f"{numbers[wrong][0]!r} is {actual[wrong][0]:#x}, expected {expected[wrong][0]:#x} in {name}"


@pytest.mark.parametrize("name", formats.FORMATS)
def test_every_float16_encodes(name, device):
    numbers = np.arange(65536, dtype=np.uint16).view(np.float16)
    # `ml_dtypes` truncates numbers for integer formats.
    result = encoded(numbers, name, device, saturate=False, rounding="down" if name in WHOLE else "nearest")
    expected = low_bits(numbers, name) if name in WHOLE else by_ml_dtypes(numbers, name)
    assert_same_codes(result, expected, numbers, name)


@pytest.mark.parametrize("name", FLOATS)
def test_every_bfloat16_encodes(name):
    numbers = (np.arange(65536, dtype=np.uint32) << 16).view(np.float32)
    if name == "float8_e8m0fnu":
        numbers = numbers[numbers >= LEAST_SCALE]
    result = formats.encode(ternion.tensor(numbers).bfloat16(), name, saturate=False).numpy()
    assert_same_codes(result, by_ml_dtypes(numbers, name), numbers, name)


@pytest.mark.parametrize("name", FLOATS)
def test_where_rounding_turns_in_float32(name, device):
    numbers = turning_points(name, np.float32)
    assert_same_codes(encoded(numbers, name, device, saturate=False), by_ml_dtypes(numbers, name), numbers, name)


@pytest.mark.parametrize("name", FLOATS)
def test_float64_is_rounded_once(name):
    """Also numbers next to a midpoint, which float32 rounds to the midpoint. `ml_dtypes` rounds to
    float32 first."""
    generator = np.random.default_rng(1)
    drawn = generator.normal(size=20000) * 2.0 ** generator.uniform(-20, 17, 20000)
    numbers = np.concatenate([turning_points(name, np.float64), drawn])
    steps = numbers_of(name)
    steps = steps[steps >= 0]
    numbers = numbers[(numbers <= steps[-1]) & (numbers >= (-steps[-1] if name in SIGNED else steps[0]))]
    middles = (steps[1:] + steps[:-1]) / 2
    indices = np.searchsorted(middles, np.abs(numbers), side="left" if name in SIGNED else "right")
    # Codes are in the order of their numbers, so the next code after an odd one is even.
    halfway = (np.abs(numbers) == np.append(middles, np.inf)[indices]) & (indices % 2 == 1)
    expected = np.copysign(steps[indices + (halfway if name in SIGNED else 0)], numbers)
    np.testing.assert_array_equal(formats.decode(ternion.tensor(encoded(numbers, name)), name, ternion.float64).numpy(), expected)


@pytest.mark.parametrize("name", formats.FORMATS)
def test_there_and_back(name, device):
    codes = codes_of(name)
    numbers = formats.decode(ternion.tensor(codes, device=device), name)
    result = formats.encode(numbers, name, saturate=False).cpu().numpy()
    assert_same_codes(result, codes, numbers.cpu().numpy(), name)


@pytest.mark.parametrize("name", SIGNED)
@pytest.mark.parametrize("rounding", ["up", "down"])
def test_rounds_away_from_zero_and_towards_it(name, rounding):
    numbers = turning_points(name, np.float32)
    numbers = numbers[np.abs(numbers) <= LARGEST[name]]
    result = formats.decode(ternion.tensor(encoded(numbers, name, rounding=rounding)), name).numpy()
    steps = numbers_of(name)
    steps = steps[steps >= 0]
    index = np.searchsorted(steps, np.abs(numbers), side="left" if rounding == "up" else "right") - (rounding == "down")
    np.testing.assert_array_equal(result, np.copysign(steps[index], numbers))


# ---- Out of range


@pytest.mark.parametrize("name", SIGNED)
def test_saturates(name, device):
    """The table of ONNX's operator Cast."""
    largest = LARGEST[name]
    numbers = np.array([np.inf, -np.inf, 1e30, -1e30, largest * 1.01, largest, np.nextafter(np.float32(largest), np.float32(0))], np.float32)
    result = formats.decode(ternion.tensor(encoded(numbers, name, device)), name)
    assert result.tolist() == [largest, -largest, largest, -largest, largest, largest, largest]


@pytest.mark.parametrize(
    "name, codes",
    [
        ("float8_e4m3fn", [0x7F, 0xFF, 0x7F, 0xFF, 0x7F]),
        ("float8_e4m3fnuz", [0x80, 0x80, 0x80, 0x80, 0x80]),
        ("float8_e5m2", [0x7C, 0xFC, 0x7C, 0xFC, 0x7E]),
        ("float8_e5m2fnuz", [0x80, 0x80, 0x80, 0x80, 0x80]),
        ("float4_e2m1fn", [0x7, 0xF, 0x7, 0xF, 0x0]),
    ],
)
def test_does_not_saturate(name, codes, device):
    numbers = np.array([np.inf, -np.inf, 1e30, -1e30, np.nan], np.float32)
    assert encoded(numbers, name, device, saturate=False).tolist() == codes


@pytest.mark.parametrize("name", SIGNED)
def test_nan(name, device):
    result = formats.decode(formats.encode(ternion.tensor([np.nan, -np.nan], device=device), name), name)
    assert result.isnan().tolist() == [name != "float4_e2m1fn"] * 2


def test_zero_has_a_sign_where_the_format_has_one(device):
    numbers = np.array([0.0, -0.0, 1e-20, -1e-20], np.float32)
    for name in SIGNED:
        negative = 0 if name.endswith("uz") else 1 << (BITS[name] - 1)
        assert encoded(numbers, name, device).tolist() == [0, negative, 0, negative]


def test_scales():
    """Powers of two without sign and zero, with the rounding modes of ONNX's operator Cast."""
    numbers = np.array([1.0, 1.2, 1.5, 1.9, 0.75, 3e38, np.inf, np.nan, 0.0, -0.0, 2.0**-127, 2.0**-129, -1.0], np.float32)
    nan, top = 0xFF, 0xFE
    for rounding, saturate, expected in [
        ("nearest", True, [127, 127, 128, 128, 127, top, top, nan, 0, 0, 0, 0, nan]),
        ("up", True, [127, 128, 128, 128, 127, top, top, nan, 0, 0, 0, 0, nan]),
        ("down", True, [127, 127, 127, 127, 126, top, top, nan, 0, 0, 0, 0, nan]),
        ("nearest", False, [127, 127, 128, 128, 127, nan, nan, nan, nan, nan, 0, nan, nan]),
        ("down", False, [127, 127, 127, 127, 126, top, nan, nan, nan, nan, 0, nan, nan]),
    ]:
        assert encoded(numbers, "float8_e8m0fnu", rounding=rounding, saturate=saturate).tolist() == expected


def test_the_least_scales():
    for dtype in (np.float32, np.float64):
        numbers = np.array([1.0, 1.25, 1.5, 1.75, 2.0], dtype) * dtype(2.0**-127)
        for rounding, expected in (("nearest", [0, 0, 1, 1, 1]), ("up", [0, 1, 1, 1, 1]), ("down", [0, 0, 0, 0, 1])):
            assert encoded(numbers, "float8_e8m0fnu", rounding=rounding).tolist() == expected


# ---- Integers


@pytest.mark.parametrize("name", WHOLE)
def test_integers_saturate_or_keep_their_low_bits(name, device):
    low, high = WHOLE[name]
    numbers = np.array([-300, -9, -8, -3, -1, 0, 1, 7, 8, 15, 16, 255, 2**24 + 1], np.int32)
    for dtype in (np.int32, np.int64, np.float32):
        result = formats.decode(ternion.tensor(encoded(numbers.astype(dtype), name, device)), name, ternion.int32)
        assert result.tolist() == np.clip(numbers.astype(dtype), low, high).tolist()
        wrapped = encoded(numbers.astype(dtype), name, device, saturate=False)
        assert wrapped.tolist() == (numbers.astype(dtype).astype(np.int64) % 2 ** BITS[name]).tolist()
    assert encoded(np.array([0, 3, 200], np.uint8), "uint2", device, saturate=False).tolist() == [0, 3, 0]
    assert encoded(np.array([True, False]), name, device).tolist() == [1, 0]


@pytest.mark.parametrize("rounding, expected", [("nearest", [2, 2, -2, -2, 4, 0]), ("up", [2, 3, -2, -3, 4, 1]), ("down", [1, 2, -1, -2, 3, 0])])
def test_integers_are_rounded(rounding, expected, device):
    numbers = np.array([1.5, 2.5, -1.5, -2.5, 3.6, 0.4], np.float32)
    assert formats.decode(ternion.tensor(encoded(numbers, "int4", device, rounding=rounding)), "int4").tolist() == expected


def test_integers_have_neither_nan_nor_infinities(device):
    numbers = np.array([np.nan, np.inf, -np.inf], np.float32)
    assert formats.decode(ternion.tensor(encoded(numbers, "int4", device)), "int4").tolist() == [0, 7, -8]
    assert encoded(numbers, "int4", device, saturate=False).tolist() == [0, 0, 0]


# ---- Tensors and errors


def test_any_shape_and_layout(device):
    x = ternion.randn(3, 4, device=device)
    for value in (x, x.T, x[:, ::2], x[0, 0], x[:0]):
        bits = formats.encode(value, "float8_e5m2")
        assert bits.dtype == ternion.uint8 and bits.shape == value.shape and bits.device == value.device
        back = formats.decode(bits, "float8_e5m2")
        assert back.shape == value.shape and back.device == value.device
        assert ((back - value).abs() <= value.abs() / 8).all()


def test_no_gradient_flows():
    x = ternion.randn(3, requires_grad=True)
    assert not formats.decode(formats.encode(x, "float8_e4m3fn"), "float8_e4m3fn").requires_grad


def test_unknown_formats_and_roundings():
    x = ternion.zeros(2)
    with pytest.raises(ValueError, match=r"encode: format 'float8', expected one of float8_e4m3fn, .*, uint2"):
        formats.encode(x, "float8")
    with pytest.raises(ValueError, match=r"decode: format None, expected one of"):
        formats.decode(x.to(ternion.uint8), None)
    with pytest.raises(ValueError, match=r"encode: rounding 'even', expected one of nearest, up, down"):
        formats.encode(x, "int4", rounding="even")


def test_wrong_dtypes():
    x = ternion.zeros(2)
    bits = x.to(ternion.uint8)
    with pytest.raises(TypeError, match=r"encode: input of ternion.int64, expected floats for the format float8_e5m2"):
        formats.encode(x.long(), "float8_e5m2")
    with pytest.raises(TypeError, match=r"decode: bits of ternion.float32, expected uint8"):
        formats.decode(x, "float8_e5m2")
    for name, dtype in (("float8_e5m2", ternion.int32), ("int4", ternion.bool), ("int4", "float32")):
        with pytest.raises(TypeError, match=r"decode: dtype .*, expected floats"):
            formats.decode(bits, name, dtype)
    with pytest.raises(TypeError, match=r"encode: input is a list, expected a tensor"):
        formats.encode([1.0], "int4")
    with pytest.raises(TypeError, match=r"decode: bits is a ndarray, expected a tensor"):
        formats.decode(np.zeros(2, np.uint8), "int4")
