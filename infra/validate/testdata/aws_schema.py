"""Prints the schema of resources of the AWS provider for Terraform: arguments, blocks and attributes of each.

    npm pack @cdktf/provider-aws@19.65.1
    python3 aws_schema.py cdktf-provider-aws-19.65.1.tgz aws_sqs_queue aws_iam_role data.aws_region ... > aws.json

The package holds bindings that are generated from the provider's own schema; only names and whether they are required are taken.
"""
import json
import re
import sys
import tarfile

INTERFACE = re.compile(r"export interface (\w+)(?: extends [\w.]+)? \{(.*?)\n\}", re.S)
MEMBER = re.compile(r"/\*\*(.*?)\*/\s*readonly \w+(\??): ([^;]+);", re.S)
GETTER = re.compile(r"^    get (\w+)\(", re.M)


def snake(name):
    return re.sub(r"(?<!^)([A-Z])", lambda m: "_" + m[1].lower(), name)


def describe(interfaces, name):
    arguments, blocks = {}, {}
    for comment, optional, kind in MEMBER.findall(interfaces[name]):
        argument = re.search(r"#(\w+) ", comment)[1]
        if re.search(rf"\* {argument} block", comment):
            blocks[argument] = {"required": optional == "", **describe(interfaces, re.match(r"\w+", kind)[0])}
        else:
            arguments[argument] = optional == ""
    return {"arguments": arguments, "blocks": blocks}


def main():
    archive, wanted = tarfile.open(sys.argv[1]), sys.argv[2:]
    schema, version = {}, ""
    for name in wanted:
        folder = name.replace("data.aws_", "data-aws-") if name.startswith("data.") else name.removeprefix("aws_")
        text = archive.extractfile("package/lib/" + folder.replace("_", "-") + "/index.d.ts").read().decode()
        version = re.search(r"hashicorp/aws/([\d.]+)/", text)[1]
        interfaces = dict(INTERFACE.findall(text))
        config = next(i for i in interfaces if i.endswith("Config"))
        own = text[text.rindex("export declare class"):]
        attributes = sorted({snake(g) for g in GETTER.findall(own) if not g.endswith("Input")})
        schema[name] = {**describe(interfaces, config), "attributes": attributes}
    json.dump({"provider": version, "resources": schema}, sys.stdout, indent=1, sort_keys=True)
    print()


main()
