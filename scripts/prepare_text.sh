#!/bin/sh
# prepare_text.sh [OUT_DIR] [--small|--large]: real English text out of Debian or Ubuntu packages, one document a file,
# plain UTF-8, ready for 'subring tokenize ... OUT_DIR/*.txt'. Default OUT_DIR: data/text.
#   (default)  an encyclopedia of political thought (anarchism) and Perl's manuals (perl-doc): about 19 MB
#   --small    every eighth document of it
#   --large    and the kernel's documentation (linux-doc): about 42 MB
# Downloads packages and unpacks them in a temporary directory: needs no root, installs nothing. Does nothing when
# OUT_DIR is complete. Same packages, same text.
set -eu
LC_ALL=C
export LC_ALL

fail() { echo "prepare_text.sh: $*" >&2; exit 1; }

out=data/text
size=default
for argument in "$@"; do
  case $argument in
    --small) size=small ;;
    --large) size=large ;;
    -h|--help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) fail "unknown option '$argument'; usage: prepare_text.sh [OUT_DIR] [--small|--large]" ;;
    *) out=$argument ;;
  esac
done

if [ "$(cat "$out/.complete" 2>/dev/null)" = "$size" ]; then
  echo "prepare_text.sh: $out is complete ($size)" >&2
  exit 0
fi
for tool in apt-get apt-cache dpkg-deb zcat sed awk iconv; do
  command -v $tool >/dev/null || fail "needs '$tool'; on other systems than Debian and Ubuntu put plain text files into a directory yourself"
done

# What lies in a directory of somebody else's is not ours to replace.
if [ ! -e "$out/.complete" ] && [ -n "$(ls "$out"/*.txt 2>/dev/null)" ]; then
  fail "$out holds .txt files that this script did not write; name a new directory"
fi
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d "$out/.work.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
mkdir "$work/text"

download() {
  (cd "$work" && apt-get -qq -o APT::Sandbox::User="$(id -un)" download "$1") >"$work/log" 2>&1
}

# Downloads package $1 and unpacks it into $work/$2.
fetch() {
  echo "prepare_text.sh: downloading $1" >&2
  if ! download "$1"; then
    # A fresh machine may never have fetched its package lists.
    if [ "$(id -u)" = 0 ]; then apt-get -qq update >"$work/log" 2>&1 || true; fi
    download "$1" || fail "cannot download package $1: $(tail -n 1 "$work/log") (is there a network? otherwise run 'apt-get update' as root)"
  fi
  dpkg-deb -x "$work/$1"_*.deb "$work/$2" || fail "cannot unpack package $1"
  rm "$work/$1"_*.deb
}

# Writes document $2 from the file $1 through the command that follows, without what is no UTF-8 or
# shorter than a page.
emit() {
  from=$1; to=$work/text/$2.txt; shift 2
  zcat -f "$from" | "$@" | sed 's/[ \t]*$//' | iconv -c -f UTF-8 -t UTF-8 | cat -s >"$to" || true
  if [ "$(wc -c <"$to")" -lt 2000 ]; then rm "$to"; fi
}

# Markdown as pandoc writes it: without targets of links, raw tags and the backslash before signs.
strip_markdown() {
  sed -e 's/\](\([^()]*\))/]/g' -e 's/<[^<>]*>//g' -e 's/{[#.][^{}]*}//g' -e 's/[][]//g' -e 's/\\\(.\)/\1/g' -e 's/\\$//'
}

# Perl's own markup: without index entries and the codes around words (nested: inner ones first).
strip_pod() {
  sed -e '/^=\(encoding\|cut\|over\|back\|pod\|for\|begin\|end\)/d' -e 's/^=head[1-4] *//' -e 's/^=item */* /' \
    -e 's/E<sol>/\//g' -e 's/E<verbar>/|/g' -e 's/X<[^<>]*>//g' -e 's/[BCFIS]<\([^<>]*\)>/\1/g' -e 's/[BCFIS]<\([^<>]*\)>/\1/g' \
    -e 's/L<\([^<>|]*\)|[^<>]*>/\1/g' -e 's/L<\([^<>]*\)>/\1/g' -e 's/E<lt>/</g' -e 's/E<gt>/>/g'
}

fetch anarchism anarchism
for file in "$work"/anarchism/usr/share/doc/anarchism/markdown/*.md*; do
  name=${file##*/}
  emit "$file" "anarchism_${name%%.md*}" strip_markdown
done

fetch perl-doc perl
find "$work/perl/usr/share/perl" -name '*.pod' | sort >"$work/pods"
while read -r file; do
  name=${file##*/}
  # Translations and tables.
  case $name in perlcn.pod|perljp.pod|perlko.pod|perltw.pod|perltoc.pod|perluniprops.pod) continue ;; esac
  emit "$file" "perl_${name%.pod}" strip_pod
done <"$work/pods"

if [ "$size" = large ]; then
  # The package's name has the kernel's version in it, which linux-doc depends on.
  package=$(apt-cache depends linux-doc 2>/dev/null | sed -n 's/.*Depends: *\(linux-doc-[0-9.]*\).*/\1/p' | head -n 1)
  [ -n "$package" ] || fail "finds no kernel documentation here (package linux-doc); leave out --large"
  fetch "$package" linux
  find "$work/linux/usr/share/doc" -path '*/Documentation/*' ! -path '*/translations/*' \( -name '*.rst' -o -name '*.rst.gz' -o -name '*.txt' -o -name '*.txt.gz' \) | sort >"$work/rst"
  while read -r file; do
    name=${file#*/Documentation/}
    name=$(echo "${name%.gz}" | tr '/ ' '__')
    emit "$file" "linux_${name%.*}" cat
  done <"$work/rst"
fi

if [ "$size" = small ]; then
  ls "$work/text" | awk 'NR % 8 != 1' | while read -r name; do rm "$work/text/$name"; done
fi
count=$(ls "$work/text" | wc -l)
[ "$count" -ge 20 ] || fail "found only $count documents in the packages: their layout has changed"
rm -f "$out/.complete" "$out"/*.txt
(cd "$work/text" && find . -name '*.txt' -exec mv {} "$out" \;)
echo "$size" >"$out/.complete"
echo "prepare_text.sh: $out: $count documents, $(cat "$out"/*.txt | wc -c) bytes" >&2
