"""The build of the wheel: maturin's, with the `farside` command built beside the module.

maturin builds a module or a program, not both; what lies in its data folder goes into the wheel.
So the command is built first, by cargo, and laid there: it is the same program as anywhere else,
starts without an interpreter, and can be named to hosts that have none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import maturin  # type: ignore[import-not-found]
from maturin import *  # type: ignore[import-not-found]  # noqa: F403

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "command.data" / "scripts"
# maturin looks for it whatever it is asked.
SCRIPTS.mkdir(parents=True, exist_ok=True)


def _build(config_settings: dict[str, Any] | None) -> dict[str, Any]:
    """Builds the command, lays it into maturin's data folder, and returns maturin's settings.

    `--config-settings profile=dev` is for developers of the project.
    """
    settings = dict(config_settings or {})
    profile = str(settings.pop("profile", "installed"))
    cargo = os.environ.get("CARGO", "cargo")
    subprocess.run(
        [cargo, "build", "-p", "farside-cli", "-p", "farside-apps", "--profile", profile],
        cwd=ROOT,
        check=True,
    )
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT.parents[2] / "target"))
    built = target / ("debug" if profile == "dev" else profile)
    strip = shutil.which("strip")
    for program in ("farside", "farside-apps"):
        shutil.copy2(built / program, SCRIPTS / program)
        if strip is not None:
            subprocess.run([strip, SCRIPTS / program], check=True)
    arguments = settings.get("build-args") or ""
    settings["build-args"] = f"--profile {profile} --strip {arguments}".strip()
    return settings


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Builds a wheel with the module and the command."""
    settings = _build(config_settings)
    return str(maturin.build_wheel(wheel_directory, settings, metadata_directory))


def build_editable(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Builds a wheel that names this folder, with the module and the command."""
    settings = _build(config_settings)
    return str(maturin.build_editable(wheel_directory, settings, metadata_directory))
