"""The OpenAPI file says what the server does: addresses, parameters, what may be sent and what is answered."""

from pathlib import Path

import pytest
import yaml

import nngcd
from nngcd.review.page.editing import Edits, Learn, Undo

API = yaml.safe_load((Path(nngcd.__file__).parents[2] / "docs/reference/review-api.yaml").read_text(encoding="utf-8"))
READ = sorted(path for path, ways in API["paths"].items() if path.startswith("/api/") and "get" in ways
              and "application/json" in ways["get"]["responses"]["200"]["content"])  # fmt: skip


def required(schema):
    """Return the names that a schema requires, those of what it refers to as well."""
    if "$ref" in schema:
        return required(API["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    return set(schema.get("required", ())).union(*(required(one) for one in schema.get("allOf", ())))


def test_the_addresses_are_those_of_the_server(client):
    served = {(route.path, method) for route in client.page.app().routes for method in route.methods - {"HEAD"}
              if route.path.startswith(("/api", "/img"))}  # fmt: skip
    assert served == {(path, way.upper()) for path, ways in API["paths"].items() for way in ways}


@pytest.mark.parametrize("model", [Edits, Undo, Learn])
def test_what_may_be_sent_is_what_the_server_checks(model):
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    parts = schema.pop("$defs", {}) | {model.__name__: schema}
    assert {name: API["components"]["schemas"][name] for name in parts} == parts


@pytest.mark.parametrize("path", READ)
def test_an_answer_has_what_is_documented(client, path):
    image = client.page.desk.index.ids[0]
    client.edit({"op": "approve", "category": "crow"})
    asked = path.replace("{id}", "owl").replace("{image}", image) + ("?id=" + image if path == "/api/images" else "")
    answer, schema = (
        client.get(asked),
        API["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"],
    )
    assert required(schema) <= answer.keys()
    assert answer.keys() <= required(schema) | {"images", "nearest"}
    item = schema.get("properties", {}).get("items", {}).get("items")
    for one in answer.get("items", ()) if item and required(item) else ():
        assert required(item) == one.keys()


@pytest.mark.parametrize("path", [path for path in READ if "parameters" in API["paths"][path]["get"]])
def test_the_documented_values_are_accepted_and_others_refused(client, path):
    base = path.replace("{id}", "owl").replace("{image}", client.page.desk.index.ids[0])
    for parameter in API["paths"][path]["get"]["parameters"]:
        for value in parameter["schema"].get("enum", ()):
            assert client.ask(f"{base}?{parameter['name']}={value}")[0].status == 200
        if parameter["schema"]["type"] == "integer" or parameter["name"] in ("sort", "order", "s"):
            assert client.ask(f"{base}?{parameter['name']}=nonsense")[0].status == 422
