# shellcheck shell=bash
# The guest's first and only file system: byte for byte the same whenever its contents are.
# Sourced by scripts/vm.

# Copies a program without its debugging information, as the guest holds all files in memory.
put_program() {
    local file=$1 to=$2
    mkdir -p "$(dirname "$to")"
    strip -o "$to" "$file" 2>/dev/null || cp "$file" "$to"
    chmod 755 "$to"
}

# Copies systemd, and installs what a user would: program, units, drop-ins, documents.
put_system() {
    local root=$1 file
    [ ! -e "$root/usr/local/bin/systemd" ] || return 0
    need_systemd
    [ -x /lib/systemd/systemd ] || { lacking "no systemd (package systemd)"; return 1; }
    put_program /lib/systemd/systemd "$root/usr/local/bin/systemd"
    put_program "$(command -v systemctl)" "$root/usr/local/bin/systemctl"
    # Later versions have a program that becomes the service.
    file=/lib/systemd/systemd-executor
    [ ! -e $file ] || put_program $file "$root$file"
    DESTDIR=$root scripts/install "$(dirname "$(ours truechimer)")" >/dev/null || return
    for file in bin/truechimer lib/truechimer/libtruechimer_group.so; do
        put_program "$root/usr/local/$file" "$root/usr/local/$file.stripped" && mv "$root/usr/local/$file"{.stripped,}
    done
    echo "truechimer:x:990:990::/:/bin/false" >>"$root/etc/passwd"
    echo "truechimer:x:990:" >>"$root/etc/group"
}

# Copies what a machine in the machine needs: QEMU, the smaller one where there are two, as qemu-inner; its firmware, the
# kernel, and the module by which that machine reads its host's clock.
put_hypervisor() {
    local root=$1 program firmware=/usr/share/qemu/bios-microvm.bin
    [ ! -e "$root/boot" ] || return 0
    program=$(command -v qemu-system-x86_64-microvm || command -v qemu-system-x86_64)
    [ -e $firmware ] || { lacking "no $firmware (package qemu-system-data)"; return 1; }
    put_program "$program" "$root/usr/local/bin/qemu-inner"
    mkdir -p "$root/boot"
    cp -L $firmware "$root/boot/"
    cp "$kernel" "$root/boot/vmlinuz"
    put_modules "$root" ptp_kvm >/dev/null
}

# Copies the libraries that the programs in a folder link, to where they look for them.
put_libraries() {
    local root=$1 library
    find "$root"/usr/local/{bin,lib} "$root/lib" -type f -exec ldd {} \; 2>/dev/null |
        sed -n 's/.*=> \(\/[^ ]*\) (.*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) (.*/\1/p' | sort -u |
        while read -r library; do
            [ -e "$root$library" ] && continue
            mkdir -p "$root$(dirname "$library")"
            cp -L "$library" "$root$library"
        done
}

# The folder tree $1 as the archive $2. Times, owners, order and inode numbers are fixed.
pack() {
    (cd "$1" && find . -exec touch -hd @0 {} + && find . | LC_ALL=C sort |
        cpio -o -H newc -R 0:0 --quiet --reproducible) >"$2"
}

# Copies the named modules and all that they need, and prints them in the order of loading.
put_modules() {
    local root=$1 file
    shift
    module_order "$@" | while read -r file; do
        case $file in
        *.xz) xz -dc "$file" >"$root/modules/$(basename "$file" .xz)" ;;
        *) cp "$file" "$root/modules/" ;;
        esac
        basename "$file" .xz
    done
}

# Builds a module of tests/vm/modules and copies it.
put_built() { build_module "$2" && cp "$built" "$1/modules/"; }
