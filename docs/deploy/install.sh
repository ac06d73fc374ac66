#!/bin/sh
# Install Trainyard with the extras $1 from /build/wheels into /opt/trainyard, with a bill of materials (CycloneDX) and
# nothing that nobody runs: pip, tests of packages, translations (the pages are English) and symbols for debuggers.
set -eu
wheel=$(ls /build/trainyard-*.whl)
python3 -m venv /opt/trainyard
/opt/trainyard/bin/pip install --no-cache-dir --no-compile --no-index --find-links /build/wheels "${wheel}[$1]"
/opt/trainyard/bin/pip uninstall --yes --quiet setuptools pip
/tools/bin/cyclonedx-py environment --of JSON -o /opt/trainyard/sbom.cdx.json /opt/trainyard/bin/python
packages=$(echo /opt/trainyard/lib/python3*/site-packages)
rm -rf "$packages"/numpy/*/tests "$packages"/numpy/tests "$packages"/numpy/_core/include "$packages"/numpy/_core/lib/*.a
# Not all: what auditwheel has rewritten breaks.
for name in aiohttp sqlalchemy uvloop zstandard; do
    [ ! -d "$packages/$name" ] || find "$packages/$name" -name '*.so' -exec strip --strip-debug {} +
done
find "$packages" -name LC_MESSAGES -prune -exec rm -rf {} +
find /opt/trainyard -name __pycache__ -prune -exec rm -rf {} +
