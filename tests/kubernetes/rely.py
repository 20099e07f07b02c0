"""Looks whether the manifests of contrib/kubernetes have what we rely on, and no more rights than that.

usage: rely.py FOLDER PROGRAM
"""

import pathlib
import subprocess
import sys
import tempfile
import tomllib

import yaml

folder, program = pathlib.Path(sys.argv[1]), sys.argv[2]
root = pathlib.Path(__file__).resolve().parents[2]
PAGE = "/run/truechimer"
CONTROL = "/run/truechimer-control"
faults = []


def check(what, good):
    """Notes what is not as it should be."""
    if not good:
        faults.append(what)


def manifests(name):
    """Gives the documents of a file by their kind."""
    return {one["kind"]: one for one in yaml.safe_load_all((folder / name).read_text())}


def narrow(name, pod):
    """Checks that a pod has no more rights than it needs: nothing of the node but two directories."""
    for key in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"):
        check(f"{name}: no {key}", not pod.get(key))
    check(f"{name}: no token", pod["automountServiceAccountToken"] is False)
    check(f"{name}: filtered", pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault")
    for one in pod["containers"] + pod.get("initContainers", []):
        rights = one["securityContext"]
        of = f"{name}, {one['name']}"
        check(f"{of}: gains nothing", rights["allowPrivilegeEscalation"] is False)
        check(f"{of}: not privileged", rights["privileged"] is False)
        check(f"{of}: no capability", rights["capabilities"] == {"drop": ["ALL"]})
        check(f"{of}: its own files are not written", rights["readOnlyRootFilesystem"] is True)


def page(name, pod, reads_only):
    """Checks that all mount the page's directory: before the file is there, and so that the next one is seen."""
    volume = {one["name"]: one for one in pod["volumes"]}["page"]
    check(f"{name}: the directory", volume["hostPath"] == {"path": PAGE, "type": "DirectoryOrCreate"})
    for one in pod["containers"] + pod.get("initContainers", []):
        mount = {mount["name"]: mount for mount in one["volumeMounts"]}["page"]
        check(f"{name}: where it is looked for", mount["mountPath"] == PAGE)
        check(f"{name}: no single file", "subPath" not in mount and "subPathExpr" not in mount)
        check(f"{name}: read-only", mount.get("readOnly", False) is reads_only)


def understood(name, words):
    """Checks that the program knows these arguments."""
    ran = subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=False)
    check(f"{name}: {' '.join(words)}: {ran.stderr}", ran.returncode == 0)


def commands(name, one):
    """Gives all that is called in a container: what is started, and what is asked of it."""
    if "args" in one:
        yield one["args"]
    for probe in ("readinessProbe", "livenessProbe", "startupProbe"):
        if probe in one:
            words = one[probe]["exec"]["command"]
            check(f"{name}: the program of the image", words[0] == "/usr/bin/truechimer")
            yield words[1:]


node, client = manifests("truechimer.yaml"), manifests("client.yaml")
check("one of each", sorted(node) == ["ConfigMap", "DaemonSet", "Namespace"])
space = node["Namespace"]["metadata"]["name"]
daemons = node["DaemonSet"]
spec = daemons["spec"]
pod = spec["template"]["spec"]
labels = spec["template"]["metadata"]["labels"]
check("it selects its pods", spec["selector"]["matchLabels"].items() <= labels.items())
for kind in ("ConfigMap", "DaemonSet"):
    check(f"{kind}: its namespace", node[kind]["metadata"]["namespace"] == space)
check("every node", pod["tolerations"] == [{"operator": "Exists"}])
narrow("daemon", pod)
narrow("client", client["Pod"]["spec"])
page("daemon", pod, reads_only=False)
page("client", client["Pod"]["spec"], reads_only=True)
check("the client is an ordinary user", client["Pod"]["spec"]["securityContext"]["runAsNonRoot"] is True)
paths = {volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
check("nothing else of the node", paths == {PAGE, "/var/lib/truechimer"})

(daemon,) = pod["containers"]
check("ready is synchronised", "waitsync" in daemon["readinessProbe"]["exec"]["command"])
check("alive is not", "waitsync" not in daemon["livenessProbe"]["exec"]["command"])
version = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]["version"]
everyone = [daemon, *client["Pod"]["spec"]["containers"], *client["Pod"]["spec"]["initContainers"]]
for one in everyone:
    check(f"{one['name']}: this version", one["image"] == f"truechimer:{version}")
    for words in commands(one["name"], one):
        understood(one["name"], words)

# The configuration: where the daemon looks for it, and good once the servers that it proposes are taken.
mount = {mount["name"]: mount for mount in daemon["volumeMounts"]}["configuration"]
((name, text),) = node["ConfigMap"]["data"].items()
check("the configuration's place", daemon["args"][-1] == f"{mount['mountPath']}/{name}")
check("read-only", mount["readOnly"] is True)
# Root in another pod with the page's directory would command the daemon by a socket in it.
socket = daemon["args"][daemon["args"].index("--control") + 1]
check("no socket beside the page", str(pathlib.PurePath(socket).parent) == CONTROL)
(own,) = (volume for volume in pod["volumes"] if volume["name"] == "control")
check("a directory of this pod alone", own == {"name": "control", "emptyDir": {}})
check("there", {"name": "control", "mountPath": CONTROL} in daemon["volumeMounts"])
check("alive by its socket", daemon["livenessProbe"]["exec"]["command"][-2:] == ["--control", socket])
text = "\n".join(
    line.removeprefix("#") if line.startswith(("#[[source]]", "#host")) else line for line in text.splitlines()
)
with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
    file.write(text)
    file.flush()
    check_it = [program, "run", "--check", "--config", file.name]
    ran = subprocess.run(check_it, capture_output=True, text=True, check=False)
check(f"the configuration: {ran.stdout}{ran.stderr}", ran.returncode == 0 and "3 servers" in ran.stdout)

# The image: its program and its directories are those that the manifests name.
recipe = (root / "contrib/Containerfile").read_text()
check("the image's program", 'ENTRYPOINT ["/usr/bin/truechimer"]' in recipe)
check("the image's socket", f'CMD ["run", "--control", "{socket}"]' in recipe)
check("the image's directories", f'VOLUME ["{PAGE}", "{CONTROL}", "/var/lib/truechimer"]' in recipe)

for fault in faults:
    print(f"FAILED kubernetes: {fault}")
sys.exit(bool(faults))
