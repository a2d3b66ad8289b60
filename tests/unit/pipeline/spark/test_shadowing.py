"""Files of the user that stand in for Python's own modules."""

import os
import sysconfig

from tidelog.pipeline.spark.shadowing import shadowing_files, standard_name


def test_files_and_packages_beside_the_job_and_on_the_path_are_found(tmp_path):
    beside, listed = tmp_path / "beside", tmp_path / "listed"
    for place in (beside / "json", beside / "email", listed):
        place.mkdir(parents=True)
    for name in ("csv.py", "job.py", "json/__init__.py", "queue.txt"):
        (beside / name).touch()
    (listed / "secrets.py").touch()
    path = os.pathsep.join(("", str(listed), str(tmp_path / "nowhere")))
    found = shadowing_files(beside, {"PYTHONPATH": path})
    assert found == [beside / "csv.py", beside / "json" / "__init__.py", listed / "secrets.py"]
    assert [standard_name(file) for file in found] == ["csv", "json", "secrets"]
    assert shadowing_files(tmp_path, {}) == []


def test_pythons_own_library_shadows_nothing(tmp_path):
    library = sysconfig.get_path("stdlib")
    assert shadowing_files(tmp_path, {"PYTHONPATH": library}) == []
