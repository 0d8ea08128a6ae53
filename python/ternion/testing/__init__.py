"""What checks numbers: gradients against differences, devices and models against each other, tensors against tensors."""

from ._close import assert_close  # noqa: F401
from ._devices import compare_devices  # noqa: F401
from ._gradcheck import GradcheckError, gradcheck  # noqa: F401
from ._models import compare_models  # noqa: F401
