"""What must hold in every run: one class per property, named after the property.

| module | properties of |
| --- | --- |
| `leaders` | who leads, and what it commits |
| `replicas` | logs and high watermarks of running nodes |
| `metadata`, `image_is_fold_of_log` | metadata images, and the log that they come from |
| `devices` | files, whatever a process makes of them |
| `readings`, `log_history` | what clients did and read |
| `loss_is_reported` | runs that may lose records |

`watch` calls them during a run; the hooks of `Checker` say when.
"""
