#!/usr/bin/env python3
"""Makes of a Kubernetes manifest what `podman play kube` can run.

    pods.py FILE FOLDER IMAGE MODULE_IMAGE    with IMAGE for the server's, and an init container with MODULE_IMAGE
    pods.py FILE FOLDER IMAGE                 the module is in IMAGE: without the init container

Each pod of a StatefulSet becomes a file FOLDER/NAME.yaml of its own, with its volumes, and a line on standard output: its name, and
that of its service. Everything else that podman knows goes to FOLDER/others.yaml. Beside images, nothing of the pods changes but what
podman takes in a way of its own.
"""

import copy
import pathlib
import sys

import yaml


def main(manifest, folder, image, module_image=None):
    documents = list(yaml.safe_load_all(pathlib.Path(manifest).read_text()))
    maps = [document for document in documents if document["kind"] == "ConfigMap"]
    others = maps + [document for document in documents if document["kind"] in ("Deployment", "PersistentVolumeClaim")]
    for document in documents:
        if "template" not in document.get("spec", {}):
            continue
        spec = document["spec"]["template"]["spec"]
        for container in spec["containers"]:
            container["image"] = image
            # podman would open them on the machine, to everybody.
            container.pop("ports", None)
        if module_image:
            spec["initContainers"][0]["image"] = module_image
        else:
            without_module(spec)
        if document["kind"] == "StatefulSet":
            for ordinal in range(document["spec"]["replicas"]):
                name, pod = pod_of(document, ordinal)
                # podman finds a ConfigMap only in the file that uses it.
                write(pathlib.Path(folder, f"{name}.yaml"), maps + [pod])
                print(name, document["spec"]["serviceName"])
    write(pathlib.Path(folder, "others.yaml"), others)


def without_module(spec):
    del spec["initContainers"]
    spec["volumes"] = [volume for volume in spec["volumes"] if volume["name"] != "module"]
    for container in spec["containers"]:
        container["volumeMounts"] = [mount for mount in container["volumeMounts"] if mount["name"] != "module"]


def pod_of(stateful_set, ordinal):
    name = f"{stateful_set['metadata']['name']}-{ordinal}"
    pod = {"apiVersion": "v1", "kind": "Pod"} | copy.deepcopy(stateful_set["spec"]["template"])
    pod["metadata"]["name"] = pod["spec"]["hostname"] = name
    # podman's server of names misses questions while pods start.
    pod["spec"]["dnsConfig"] = {"options": [{"name": "timeout", "value": "1"}, {"name": "attempts", "value": "1"}]}
    for claim in stateful_set["spec"].get("volumeClaimTemplates", []):
        volume = claim["metadata"]["name"]
        pod["spec"].setdefault("volumes", []).append(
            {"name": volume, "persistentVolumeClaim": {"claimName": f"{volume}-{name}"}}
        )
    return name, pod


def write(path, documents):
    path.write_text(yaml.safe_dump_all(documents))


main(*sys.argv[1:])
