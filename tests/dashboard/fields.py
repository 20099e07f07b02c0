"""Reads a dashboard by Grafana's types, writes it again, and says what was lost on the way."""

import json
import sys

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

# The data source's own, of which the dashboard's types know nothing.
OTHERS = {"/annotations/list/titleFormat"}


def lost(before, after, path=""):
    """Places at which the second lacks something of the first or has something else."""
    if isinstance(before, dict):
        for key, value in before.items():
            place = f"{path}/{key}"
            if not isinstance(after, dict) or key not in after:
                yield place
            else:
                yield from lost(value, after[key], place)
    elif isinstance(before, list):
        if not isinstance(after, list) or len(before) != len(after):
            yield path
        else:
            for one, other in zip(before, after):
                yield from lost(one, other, path)
    elif before != after:
        yield path


def again(dashboard):
    return json.loads(JSONEncoder().encode(Dashboard.from_json(dashboard)))


def main():
    with open(sys.argv[1]) as file:
        dashboard = json.load(file)
    faults = set(lost(dashboard, again(dashboard))) - OTHERS
    for place in sorted(faults):
        print(f"{place}: no field of Grafana's")
    # A field that there is not must be found.
    wrong = json.loads(json.dumps(dashboard))
    wrong["panels"][0]["gridPosition"] = wrong["panels"][0].pop("gridPos")
    if "/panels/gridPosition" not in lost(wrong, again(wrong)):
        faults.add("self")
        print("a field that there is not is not found")
    sys.exit(bool(faults))


main()
