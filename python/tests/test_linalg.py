"""`ternion.linalg` and its functions at the top level: compared with NumPy for batches, layouts and
dtypes, and with PyTorch for signatures; and rejected calls."""

import inspect

import numpy as np
import pytest
from pytorch_reference import close, pair, torch_of

import ternion
from ternion import linalg

SHAPES = [(1, 1), (3, 3), (2, 4, 4), (2, 1, 3, 3), (0, 2, 2), (0, 0), (2, 0, 0)]
WIDE = [(5, 3), (3, 5), (2, 4, 2), (0, 3), (3, 0), (2, 0, 3)]


def drawn(*shape, seed=0):
    """Returns matrices whose singular values are well separated and far from 0."""
    rows, columns = shape[-2:]
    return np.random.default_rng(seed).uniform(-1, 1, shape) + np.eye(rows, columns) * (2 * np.arange(columns) + 4)


def t(values, dtype=None):
    return ternion.tensor(values, dtype=dtype)


def same(actual, expected, tolerance=1e-12):
    actual = actual.detach().numpy()
    expected = np.asarray(expected)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


class TestBesideNumPy:
    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-12), ("float32", 2e-6)])
    def test_squares(self, shape, dtype, tolerance):
        a = drawn(*shape).astype(dtype)
        x, wide = t(a), a.astype("float64")
        same(linalg.det(x) / 1e3, np.linalg.det(wide) / 1e3, tolerance)
        sign, logarithm = linalg.slogdet(x)
        same(sign, np.linalg.slogdet(wide)[0], 0)
        same(logarithm, np.linalg.slogdet(wide)[1], tolerance)
        same(linalg.inv(x), np.linalg.inv(wide), tolerance)
        b = drawn(*shape[:-1], 2, seed=1).astype(dtype)
        same(linalg.solve(x, t(b)), np.linalg.solve(wide, b), tolerance)
        same(linalg.matrix_power(x / 8, 3), np.linalg.matrix_power(wide / 8, 3), tolerance)
        symmetric = wide @ wide.swapaxes(-1, -2)
        lower = linalg.cholesky(t(symmetric.astype(dtype)))
        same(lower, np.linalg.cholesky(symmetric), 10 * tolerance)
        same(linalg.eigvalsh(t(symmetric.astype(dtype))) / 100, np.linalg.eigvalsh(symmetric) / 100, tolerance)
        assert x.device == lower.device and str(lower.dtype) == f"ternion.{dtype}"

    @pytest.mark.parametrize("shape", SHAPES + WIDE)
    def test_decompositions(self, shape):
        a = drawn(*shape)
        x, k = t(a), min(shape[-2:])
        for full in (True, False):
            u, s, vh = linalg.svd(x, full_matrices=full)
            expected = np.linalg.svd(a, full_matrices=full)
            assert [part.shape for part in (u, s, vh)] == [part.shape for part in expected]
            same(s, expected[1])
            same((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], a)
            same(u.mT @ u, np.broadcast_to(np.eye(u.shape[-1]), u.mT.shape[:-1] + u.shape[-1:]))
        for mode in ("reduced", "complete"):
            q, r = linalg.qr(x, mode)
            same(q @ r, a)
            same(r, np.triu(r.numpy()), 0)
            assert [q.shape, r.shape] == [part.shape for part in np.linalg.qr(a, mode)]
        p, lower, upper = linalg.lu(x)
        same(p @ lower @ upper, a)
        same(linalg.pinv(x), np.linalg.pinv(a))
        same(linalg.matrix_rank(x), np.linalg.matrix_rank(a))

    @pytest.mark.parametrize("order", [None, 1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc"])
    def test_norms_of_matrices(self, order):
        a = drawn(2, 3, 4)
        for dim, keepdim in [((1, 2), False), ((2, 0), True), ((-1, -2), False)]:
            same(linalg.norm(t(a), order, dim, keepdim), np.linalg.norm(a, order, dim, keepdim))
        if order is not None:
            same(linalg.matrix_norm(t(a), order), np.linalg.norm(a, order, (1, 2)))
        same(linalg.cond(t(a[..., :3]), order), np.linalg.cond(a[..., :3], order), 1e-11)

    @pytest.mark.parametrize("order", [0, 1, 2, 3, 0.5, -1, -2.5, np.inf, -np.inf])
    def test_norms_of_vectors(self, order):
        a = np.random.default_rng(2).uniform(0.1, 2, (2, 3, 4)) * np.array([1, -1, 1, -1])
        for dim in (0, -1):
            same(linalg.vector_norm(t(a), order, dim), np.linalg.norm(a, order, dim))
            same(linalg.norm(t(a), order, dim, True), np.linalg.norm(a, order, dim, True))
            same(ternion.norm(t(a), order, dim), np.linalg.norm(a, order, dim))
        same(linalg.vector_norm(t(a), order), np.linalg.norm(a.reshape(-1), order))
        same(linalg.vector_norm(t(-3.0), order, dim=-1, keepdim=True), float(order == 0) or 3.0, 1e-6)

    def test_no_norm_overflows_or_vanishes(self):
        for scale in (1e30, 1e-30):
            x = t([3 * scale, -4 * scale], "float32")
            for order in (2, 3, 5.5):
                expected = scale * np.linalg.norm([3.0, 4.0], order)
                same(linalg.vector_norm(x, order) / scale, expected / scale, 1e-6)
                if order != 2:
                    same(ternion.norm(x, order) / scale, expected / scale, 1e-6)

    @pytest.mark.parametrize("shapes", [((5, 3), (5, 2)), ((3, 5), (3, 2)), ((4, 3), (4,)), ((2, 4, 3), (2, 4, 1))])
    def test_least_squares(self, shapes):
        a, b = (drawn(*shapes[0]), np.random.default_rng(1).uniform(-1, 1, shapes[1]))
        actual = linalg.lstsq(t(a), t(b), driver="gelsd")
        expected = np.linalg.pinv(a) @ b
        same(actual.solution, expected)
        same(actual.rank, np.linalg.matrix_rank(a))
        same(actual.singular_values, np.linalg.svd(a, compute_uv=False))
        if a.shape[-2] > a.shape[-1]:
            same(actual.residuals, ((a @ expected - b) ** 2).sum(-2 if b.ndim == a.ndim else -1))

    def test_of_a_deficient_rank(self):
        a = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]])
        result = linalg.lstsq(t(a), t(np.ones((3, 1))), driver="gelss")
        same(result.solution, np.linalg.pinv(a) @ np.ones((3, 1)))
        assert result.residuals.shape == (0,) and result.rank.item() == 1
        assert linalg.matrix_rank(t(a), tol=100.0).item() == 0 and linalg.matrix_rank(t(np.diag([3.0, 1.0])), rtol=0.5).item() == 1
        same(linalg.pinv(t(np.diag([3.0, 1.0])), rcond=0.5), np.diag([1 / 3, 0.0]))
        same(linalg.pinv(t(np.diag([3.0, -1.0])), hermitian=True), np.diag([1 / 3, -1.0]))

    def test_tolerances_of_each_matrix(self):
        a = t(np.array([[[1, 0], [0, 0.125]], [[4, 0], [0, 2]]]))
        assert linalg.matrix_rank(a, atol=t([0.5, 3])).tolist() == [1, 1]
        assert linalg.matrix_rank(a, atol=t([0.5, 3]), rtol=t([0.0, 0.25]), hermitian=True).tolist() == [1, 1]
        assert linalg.matrix_rank(a, rtol=t([[0.25], [0.75], [0.0625]])).tolist() == [[1, 2], [1, 1], [2, 2]]
        assert linalg.matrix_rank(a[0], t([0.0, 0.5])).tolist() == [2, 1] and linalg.matrix_rank(a, t([0.0])).tolist() == [2, 2]
        assert linalg.matrix_rank(a[:0], atol=ternion.zeros(0)).shape == (0,)
        same(linalg.pinv(a, atol=t([0.5, 0])), np.array([[[1, 0], [0, 0]], [[0.25, 0], [0, 0.5]]]))
        with pytest.raises(ValueError, match="matrix_rank"):
            linalg.matrix_rank(a, atol=t([1, 2, 3]))

    def test_products(self):
        a, b, c = (np.random.default_rng(seed).uniform(-1, 1, shape) for seed, shape in enumerate([(2, 5), (5, 3), (3, 4)]))
        same(linalg.multi_dot([t(a), t(b), t(c)]), a @ b @ c)
        same(linalg.multi_dot((t(a[0]), t(b), t(c[:, 0]))), a[0] @ b @ c[:, 0])
        same(ternion.chain_matmul(t(a), t(b), t(c)), a @ b @ c)
        same(linalg.cross(t(b), t(b[::-1].copy())), np.cross(b, b[::-1]))
        same(ternion.cross(t(c), t(c[:, ::-1].copy())), np.cross(c, c[:, ::-1], axis=0))
        same(linalg.vecdot(t(a), t(a[0])), a @ a[0])
        same(linalg.vander(t(a)), np.stack([np.vander(row, increasing=True) for row in a]))
        assert linalg.vander(t([2, 3]), N=4).tolist() == [[1, 2, 4, 8], [1, 3, 9, 27]] and ternion.vander(t([2, 3]), 0).shape == (2, 0)
        same(linalg.matmul(t(a), t(b)), a @ b)
        same(linalg.diagonal(t(np.stack([c, c])), offset=1), np.stack([np.diagonal(c, 1)] * 2))
        integers = np.array([[1, 2], [3, 4]])
        assert ternion.matrix_power(t(integers), 5).tolist() == np.linalg.matrix_power(integers, 5).tolist()
        assert t(integers).matrix_power(0).tolist() == [[1, 0], [0, 1]] and t(integers).matrix_power(1).tolist() == integers.tolist()

    def test_half_precision_where_nothing_is_decomposed(self):
        for dtype in ("float16", "bfloat16"):
            x = t([[3.0, 4.0], [0.0, 1.0]], dtype)
            assert linalg.vector_norm(x, dim=1).tolist() == [5.0, 1.0] and linalg.matrix_norm(x, 1).item() == 5.0
            assert linalg.matrix_exp(x * 0).tolist() == [[1.0, 0.0], [0.0, 1.0]] and linalg.matrix_exp(x).dtype == x.dtype
            assert linalg.vector_norm(x, dtype="float32").dtype == ternion.float32


class TestGradients:
    """The gradients of the other functions are compared with JAX (jax_linalg.py)."""

    def test_gradcheck(self):
        x = t(drawn(3, 3)).requires_grad_()
        for function in (ternion.det, ternion.logdet, ternion.inverse, ternion.matrix_exp, ternion.pinverse):
            assert ternion.testing.gradcheck(function, (x,)) and ternion.testing.gradgradcheck(function, (x,))

    def test_of_a_singular_matrix(self):
        x = t([[1.0, 2.0], [2.0, 4.0]]).requires_grad_()
        ternion.det(x).backward()
        same(x.grad, [[4.0, -2.0], [-2.0, 1.0]], 1e-6)

    def test_of_equal_singular_values(self):
        x = ternion.eye(3).requires_grad_()
        linalg.svdvals(x).sum().backward()
        same(x.grad, np.eye(3), 1e-6)
        x.grad = None
        linalg.eigvalsh(x).sum().backward()
        same(x.grad, np.eye(3), 1e-6)

    def test_of_a_norm_of_zeros(self):
        x = ternion.zeros(2, 2, requires_grad=True)
        (linalg.norm(x) + linalg.vector_norm(x, 3)).backward()
        same(x.grad, np.zeros((2, 2)))


    def test_in_a_scope_of_half_precision(self):
        """Everything, including gradients, is as exact as outside of the scope."""
        a, b = drawn(5, 3).astype("float32"), drawn(5, 1).astype("float32")
        of_squares = [lambda x: linalg.matrix_exp(x[:3] / 8), lambda x: linalg.svd(x[:3]).S, lambda x: linalg.inv(x[:3])]
        for function in (linalg.pinv, lambda x: linalg.lstsq(x, t(b)).solution, *of_squares):
            found = []
            for enabled in (False, True):
                x = t(a).requires_grad_()
                with ternion.autocast("cpu", dtype=ternion.bfloat16, enabled=enabled):
                    result = function(x)
                    result.backward(ternion.ones_like(result))
                found.append((result, x.grad))
            assert found[0][0].equal(found[1][0]) and found[0][1].equal(found[1][1])


class TestRejected:
    @pytest.mark.parametrize("call, message", [line.strip().split(" | ") for line in """
        linalg.inv(s) | linalg.inv: the matrix is singular
        x.new_zeros(2, 2).inverse() | linalg.inv: the matrix is singular
        linalg.inv_ex(s, check_errors=True) | linalg.inv: the matrix is singular
        linalg.solve(s, x) | linalg.solve: the matrix is singular
        linalg.solve_ex(s, x, check_errors=True) | linalg.solve: the matrix is singular
        linalg.lu_factor(s) | linalg.lu_factor: the matrix has no inverse (the pivot 2 is 0): lu_factor_ex takes it
        linalg.cholesky(-x) | linalg.cholesky: the matrix is not positive definite (the leading minor of order 1 is not)
        linalg.cholesky_ex(-x, check_errors=True) | linalg.cholesky: the matrix is not positive definite (the leading minor of order 1 is not)
        linalg.matrix_power(s, -1) | linalg.matrix_power: the matrix is singular
        linalg.svd(n) | linalg.svd: the matrix has a NaN or an infinity
        linalg.eigh(n) | linalg.eigh: the matrix has a NaN or an infinity
        linalg.pinv(n) | linalg.pinv: the matrix has a NaN or an infinity
        """.strip().splitlines()])  # fmt: skip
    def test_matrices_without_a_result(self, call, message):
        names = {"linalg": linalg, "x": ternion.eye(2), "s": t([[1.0, 2.0], [2.0, 4.0]]), "n": t([[1.0, 0.0], [float("nan"), 1.0]])}
        with pytest.raises(linalg.LinAlgError) as raised:
            eval(call, names)
        assert str(raised.value) == message and isinstance(raised.value, RuntimeError)

    @pytest.mark.parametrize("call, kind, message", [line.strip().split(" | ") for line in """
        linalg.det(i) | TypeError | linalg.det: input is int64, expected float32 or float64
        ternion.svd(x.half()) | TypeError | linalg.svd: input is float16, expected float32 or float64
        ternion.pinverse(i) | TypeError | pinverse: input is int64, expected float32 or float64
        linalg.vector_norm(i) | TypeError | linalg.vector_norm: input is int64, expected a floating dtype: input.float() makes it one
        linalg.vecdot(i, i) | TypeError | linalg.vecdot: input is int64, expected a floating dtype: input.float() makes it one
        linalg.solve(x, x.double()) | TypeError | linalg.solve: dtypes float32 and float64 differ; cast one of them with .to(dtype)
        linalg.norm(x.double(), dtype="float32") | ValueError | linalg.norm: dtype float32 for an input of float64, expected one that holds its numbers
        linalg.det(x[:1]) | ValueError | linalg.det: matrices of 1 x 2, expected square ones
        linalg.det(x[0]) | ValueError | linalg.det: expected at least 2 axes, got shape [2]
        linalg.qr(x, "x") | ValueError | linalg.qr: mode "x", expected "reduced", "complete" or "r"
        linalg.eigh(x, "x") | ValueError | linalg.eigh: UPLO "x", expected "L" or "U"
        linalg.matrix_norm(x, 3) | ValueError | linalg.matrix_norm: order 3, expected fro, nuc, 1, -1, 2, -2, inf or -inf
        linalg.matrix_norm(x, "x") | ValueError | linalg.matrix_norm: ord "x", expected a number, "fro" or "nuc"
        linalg.norm(x, 1, dim=(0, 1, 1)) | ValueError | linalg.norm: norm Order(1.0) over 3 axes, expected one axis of vectors or two of matrices
        linalg.lu(x, pivot=False) | ValueError | linalg.lu: pivot=False: decompositions are made with pivoting
        linalg.lstsq(x, x, driver="x") | ValueError | linalg.lstsq: driver 'x', expected one of gelsy, gels, gelsd, gelss
        linalg.pinv(x, 1e-3, rtol=1e-3) | TypeError | linalg.pinv: both rcond and rtol, which are one
        linalg.tensorinv(x, 0) | ValueError | linalg.tensorinv: ind 0, expected 1 or more
        linalg.vander(x, N=0) | ValueError | linalg.vander: 0 columns, expected at least 1
        linalg.vector_norm(x, dim=3) | IndexError | linalg.vector_norm: axis 3 on shape [2, 2]
        linalg.det("a") | TypeError | det: A is str, expected a tensor
        linalg.matrix_power(x, "a") | TypeError | matrix_power: n is str, expected an integer
        linalg.vector_norm(x, "fro") | TypeError | vector_norm: ord is str, expected a number
        linalg.multi_dot([x]) | ValueError | linalg.multi_dot: 1 tensors, expected at least 2
        ternion.norm(x[0], "nuc") | ValueError | norm: the nuclear norm over 1 axes, expected two of matrices
        ternion.cross(x, x) | ValueError | cross: shape [2, 2], expected an axis of size 3
        """.strip().splitlines()])  # fmt: skip
    def test_arguments(self, call, kind, message):
        names = {"linalg": linalg, "ternion": ternion, "x": ternion.eye(2), "i": ternion.eye(2, dtype=ternion.int64)}
        with pytest.raises(Exception) as raised:
            eval(call, names)
        assert (type(raised.value).__name__, str(raised.value)) == (kind, message)

    def test_what_the_ex_functions_tell(self):
        s = t([[[1.0, 2.0], [2.0, 4.0]], [[2.0, 0.0], [0.0, 4.0]]])
        assert linalg.inv_ex(s).info.tolist() == [2, 0] and linalg.inv_ex(s).inverse[1].tolist() == [[0.5, 0.0], [0.0, 0.25]]
        assert linalg.solve_ex(s, s).info.tolist() == [2, 0] and linalg.solve_ex(s, s).result[1].tolist() == [[1.0, 0.0], [0.0, 1.0]]
        assert linalg.cholesky_ex(s).info.tolist() == [2, 0] and linalg.cholesky_ex(s).info.dtype == ternion.int32
        assert linalg.lu_factor_ex(s).info.tolist() == [2, 0]

    @pytest.mark.parametrize("result", [
        lambda x: ternion.lu(x, get_infos=True), lambda x: ternion.lu(x, True, True), lambda x: x.lu(get_infos=True), lambda x: x.lu(True, True),
    ])  # fmt: skip
    def test_lu_names_what_it_tells(self, result):
        singular = t([[1.0, 2.0], [2.0, 4.0]])
        factors = result(singular)
        assert factors._fields == ("LU", "pivots", "info") and factors.info.item() == 2
        assert factors.LU.tolist() == factors[0].tolist() and factors.pivots.tolist() == [2, 2]
        assert len(ternion.lu(singular)) == 2


class TestBesidePyTorch:
    def test_missing_functions(self):
        torch = torch_of()
        missing = {name for name in dir(torch.linalg) if not name.startswith("_")} - set(linalg.__all__) - {"common_notes", "Tensor"}
        assert missing == {"eig", "eigvals", "ldl_factor", "ldl_factor_ex", "ldl_solve"}

    @pytest.mark.parametrize("name, call", [line.strip().split(" | ") for line in """
        det | f(x)
        slogdet | f(x)
        inv_ex | f(x)
        solve_ex | f(x, b)
        cholesky_ex | f(x @ x.mT)
        qr | f(x)
        svd | f(x)
        svd | f(x[:, :2], full_matrices=False)
        eigh | f(x + x.mT)
        lstsq | f(x[:, :2], b)
        lstsq | f(x[:, :2], b, driver="gels")
        lstsq | f(x[:, :2], b, driver="gelsd")
        lu | f(x)
        lu_factor | f(x)
        lu_factor_ex | f(x)
        cond | f(x * 0)
        cond | f(x[:0, :0], 1)
        matrix_norm | f(x[:, :0], 2)
        cross | f(x[:, :3], x[:, :3].flip(0))
        tensorsolve | f(x.reshape(4, 2, 2), x[:, 0])
        tensorinv | f(x.reshape(4, 2, 2), ind=1)
        """.strip().splitlines()])  # fmt: skip
    def test_names_and_shapes_of_results(self, name, call):
        torch = torch_of()
        result = []
        for module, tensor in ((linalg, lambda a: t(a)), (torch.linalg, lambda a: torch.tensor(a))):
            a = np.random.default_rng(5).uniform(-1, 1, (4, 4)) + 4 * np.eye(4)
            result.append(eval(call, {"f": getattr(module, name), "x": tensor(a), "b": tensor(a[:, :1])}))
        ours, theirs = result
        if isinstance(ours, tuple):
            fields = [field for field in dir(theirs) if field in ours._fields]
            assert sorted(fields) == sorted(ours._fields) and len(ours) == len(theirs)
        for own, other in zip(ours, theirs) if isinstance(ours, tuple) else [(ours, theirs)]:
            assert own.shape == tuple(other.shape) and str(own.dtype).split(".")[-1] == str(other.dtype).split(".")[-1]
            np.testing.assert_allclose(abs(own.numpy()), abs(other.numpy()), rtol=1e-9, atol=1e-9)

    @pytest.mark.parametrize("name, call", [line.strip().split(" | ") for line in """
        det | f(x)
        logdet | f(x @ x.mT)
        slogdet | f(x)
        inverse | f(x)
        pinverse | f(x[:, :2])
        cholesky | f(x @ x.mT, upper=True)
        cholesky_inverse | f(x.tril())
        cholesky_solve | f(b, x.tril())
        triangular_solve | f(b, x)
        triangular_solve | f(b, x, upper=False, transpose=True, unitriangular=True)
        qr | f(x)
        svd | f(x[:, :2])
        svd | f(x[:, :2], some=False)
        svd | f(x, compute_uv=False)
        lu | f(x)
        lu_unpack | f(*m.lu(x))
        lu_unpack | f(*m.lu(x.detach()), unpack_data=False)
        lu_solve | f(b, *m.lu(x))
        orgqr | f(x, b[:, 0])
        matrix_exp | f(x)
        matrix_power | f(x, -3)
        chain_matmul | f(x, x, b)
        cross | f(x[:, :3], x[:, :3].flip(0))
        norm | f(x, "nuc")
        norm | f(x.reshape(2, 2, 4), "nuc", dim=(0, 1), keepdim=True)
        vander | f(b[:, 0].detach(), 3)
        """.strip().splitlines()])  # fmt: skip
    @pytest.mark.filterwarnings("ignore")
    def test_functions_of_the_package(self, name, call):
        torch = torch_of()
        a = np.random.default_rng(6).uniform(-1, 1, (4, 4)) + 4 * np.eye(4)
        found = []
        for module, tensor in ((ternion, lambda a: t(a)), (torch, lambda a: torch.tensor(a))):
            leaves = [tensor(a).requires_grad_(), tensor(a[:, :1]).requires_grad_()]
            results = eval(call, {"f": getattr(module, name), "m": module, "x": leaves[0], "b": leaves[1]})
            results = list(results) if isinstance(results, tuple) else [results]
            flowing = [result.square().sum() for result in results if result.requires_grad]
            if flowing:
                sum(flowing[1:], flowing[0]).backward()
            found.append(results + [leaf.grad for leaf in leaves])
        if "some=False" not in call and "unpack_data=False" not in call:
            assert len(found[0]) == len(found[1])
        for own, other in zip(*found):
            assert (own is None) == (other is None)
            if own is not None and "some=False" not in call:
                close(own.abs(), other.abs(), 1e-8)

    def test_gradients_of_batches(self):
        torch = torch_of()
        for name in ("det", "inv", "svdvals", "pinv", "matrix_exp", "matrix_norm", "cond"):
            ours, theirs = pair(torch, 2, 3, 3)
            for module, x in ((linalg, ours), (torch.linalg, theirs)):
                getattr(module, name)(x).square().sum().backward()
            np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-7, atol=1e-7 * float(theirs.grad.abs().max()))


def test_every_function_is_documented():
    for name in linalg.__all__:
        assert "Shapes:" in inspect.getdoc(getattr(linalg, name)) or name == "LinAlgError"


def test_drivers_of_singular_values():
    x = ternion.eye(2)
    for function in (linalg.svd, linalg.svdvals):
        function(x, driver="gesvdj")
        with pytest.raises(ValueError, match="driver 'x', expected one of gesvd, gesvdj, gesvda"):
            function(x, driver="x")
