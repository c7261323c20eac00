#!/bin/sh
# Written by `mst plugin build`. For a package that is a folder outside of the guest's workspace,
# cargo's `-C metadata` is a hash over that folder's absolute path, and symbol names, their order
# and type ids follow from it: the same sources would give other bytes in another place. So such a
# package, and the guest that depends on it, gets a name in place of the hash.
if [ -n "$CARGO_MANIFEST_DIR" ]; then
  case "
$MST_BUILD_ROOTS
" in
    *"
$CARGO_MANIFEST_DIR
"*)
      for arg do
        shift
        case $arg in
          metadata=*) arg="metadata=mst-$CARGO_PKG_NAME-$CARGO_PKG_VERSION" ;;
        esac
        set -- "$@" "$arg"
      done
      ;;
  esac
fi
exec "$@"
