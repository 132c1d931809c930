"""A real Kubernetes control plane on this machine, without containers: for tests, and to try things on.

    with control_plane(parts=SERVER_ONLY) as plane:
        ...  # plane.kubeconfig, plane.server, plane.token, plane.ca_pem

README.md beside this file says what it needs and costs.
"""

from deploy.testbed.parts import SERVER_ONLY, Parts
from deploy.testbed.plane import ControlPlane, control_plane

__all__ = ["SERVER_ONLY", "ControlPlane", "Parts", "control_plane"]
