# shellcheck shell=bash
# Debian's cloud kernel, its modules and its headers, unpacked and never installed.
# Sourced by scripts/vm; expects $work, the folder that keeps them between runs.

# The name of the newest kernel's package, as linux-image-6.1.0-56-cloud-amd64.
kernel_package() {
    apt-cache depends "linux-image-cloud-amd64" 2>/dev/null | sed -n 's/.*Depends: //p' | head -n 1
}

# Sets $kernel (the bzImage), $release (what uname -r says) and $modules (its folder of modules).
need_kernel() {
    local into=$work/kernel
    if [ ! -e "$into/done" ]; then
        have_apt || { lacking "no apt-get to download Debian's kernel with"; return 1; }
        mkdir -p "$into"
        [ -n "$(kernel_package)" ] || apt_update
        echo "downloading $(kernel_package) (27 MB), which is unpacked and not installed"
        (cd "$into" && apt_fetch "$(kernel_package)" && dpkg-deb -x linux-image-*.deb . &&
            rm -f linux-image-*.deb && touch "done") ||
            { lacking "Debian's kernel (linux-image-cloud-amd64) cannot be downloaded"; return 1; }
    fi
    kernel=$(echo "$into"/boot/vmlinuz-*)
    release=${kernel##*/vmlinuz-}
    modules=$into/lib/modules/$release/kernel
}

# The file of a module, whether the kernel's names have - or _.
module_file() {
    find "$modules" -name "${1//[-_]/[-_]}.ko" -o -name "${1//[-_]/[-_]}.ko.xz" | head -n 1
}

module_depends() {
    case $1 in *.xz) xz -dc "$1" ;; *) cat "$1" ;; esac |
        tr '\0' '\n' | sed -n 's/^depends=//p' | head -n 1 | tr ',' ' '
}

# Prints the files of the named modules and of all that they need, in the order of loading. A name
# that is no module is taken to be built in.
module_order() {
    local name file
    for name; do
        file=$(module_file "$name")
        [ -n "$file" ] || continue
        # shellcheck disable=SC2046  # one word for each
        module_order $(module_depends "$file")
        echo "$file"
    done | awk '!seen[$0]++'
}

# Sets $headers: a folder in which modules of our own can be built.
need_headers() {
    headers=$work/headers-$release
    [ -e "$headers/done" ] && return
    make --version >/dev/null 2>&1 || apt_install make
    gcc --version >/dev/null 2>&1 || apt_install gcc libc6-dev
    if ! make --version || ! gcc --version; then
        lacking "no make or gcc to build a module with"
        return 1
    fi >/dev/null 2>&1
    mkdir -p "$headers"
    echo "downloading linux-headers-$release, which are unpacked and not installed"
    local common=linux-headers-${release%-cloud-*}-common kbuild=linux-kbuild-${release%.*}
    (cd "$headers" && apt_fetch "linux-headers-$release" "$common" "$kbuild" &&
        for deb in ./*.deb; do dpkg-deb -x "$deb" . || exit; done && rm -f ./*.deb &&
        # Its Makefile and links say where it would have been installed.
        sed -i "s|/usr/src/|$headers/usr/src/|g" "usr/src/linux-headers-$release/Makefile" &&
        ln -sfn "$headers/usr/lib/$kbuild/scripts" "usr/src/linux-headers-$release/scripts" &&
        ln -sfn "$headers/usr/lib/$kbuild/scripts" "usr/src/$common/scripts" &&
        if [ -d "usr/lib/$kbuild/tools" ]; then
            ln -sfn "$headers/usr/lib/$kbuild/tools" "usr/src/linux-headers-$release/tools" &&
                ln -sfn "$headers/usr/lib/$kbuild/tools" "usr/src/$common/tools"
        fi && touch "done") ||
        { lacking "the kernel's headers (linux-headers-$release) cannot be downloaded"; return 1; }
}

# Builds tests/vm/modules/NAME.c and sets $built to the file.
build_module() {
    need_headers || return 1
    local into=$work/built-$release/$1 source=tests/vm/modules/$1.c
    built=$into/$1.ko
    [ "$built" -nt "$source" ] && return
    mkdir -p "$into"
    cp "$source" "$into/"
    echo "obj-m := $1.o" >"$into/Makefile"
    # Without the kernel's own symbols there is no type information to add.
    if ! make -s -C "$headers/usr/src/linux-headers-$release" "M=$into" CONFIG_DEBUG_INFO_BTF_MODULES= \
        modules >"$into/log" 2>&1; then
        cat "$into/log"
        return 2
    fi
}
