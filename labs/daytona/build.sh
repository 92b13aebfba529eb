#!/bin/sh
# Builds the images of this lab, one for each patch.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
vink=${VINK:-vink}
for patch in "$here"/*.patch; do
	"$vink" image build --name "daytona-$(basename "$patch" .patch)" --patch "$patch"
done
