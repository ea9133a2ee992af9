"""What Python imports first in a process of `tests.processes.as_level`: uncork takes the processor
for one of the level that the environment names.
"""

import os

from tests.processes.as_level import FOLDER, LEVEL, take

take(os.environ[LEVEL], os.environ[FOLDER])
