// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Which links the agent does not ask about unless the settings name their scheme. Opening one of them can run commands, install software
/// or log in to another machine.
enum HandlerRules {
    /// Whether links of a scheme that the settings do not name may be asked about.
    static func mayOffer(_ scheme: String) -> Bool {
        !AgentConfiguration.Opening.neverOpened.contains(scheme) && !neverOffered.contains(scheme)
    }

    private static let neverOffered: Set<String> = [
        // The default settings open these. Settings without them forbid them.
        "http", "https",
        // Files and pages of this machine, and what is part of a page.
        "file", "admin", "trash", "computer", "burn", "recent", "network", "about", "blob", "filesystem", "view-source", "chrome",
        "chrome-extension", "moz-extension", "resource", "jar", "content", "intent", "man", "info", "help", "ghelp", "unknown",
        // Programs, and what installs them.
        "terminal", "apt", "snap", "appstream", "flatpak", "flatpak+https", "flatpak+http", "packagekit", "kns", "pkcs11",
        // Logins to other machines. Their programs take options out of the link, and send names and passwords.
        "ssh", "sftp", "scp", "fish", "mosh", "telnet", "rlogin", "rsh", "tn3270", "rdp", "vnc", "spice", "x2go", "nxs", "smb", "cifs",
        "nfs", "afp", "afc", "mtp", "gphoto2", "dav", "davs", "ftp", "ftps", "git", "svn", "svn+ssh", "git+ssh", "ldap", "ldaps",
    ]

    /// Whether a line starts a program that takes a URI as data: no shell, no terminal, nothing that runs other programs as another user or
    /// elsewhere, and no program text among its arguments.
    static func mayStart(_ exec: ExecLine) -> Bool {
        let words = exec.texts.flatMap { text in
            // Such as `--command=sh`.
            text.utf8.split(separator: UInt8(ascii: "=")).map { part in
                String(decoding: part.split(separator: UInt8(ascii: "/")).last ?? [], as: UTF8.self)
            }
        }
        guard !words.contains(where: { runners.contains($0) }) else { return false }
        let isInterpreter = words.contains { word in
            let name = String(decoding: word.utf8.prefix { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) }, as: UTF8.self)
            return interpreters.contains(name)
        }
        return !isInterpreter || !exec.texts.contains { codeOptions.contains($0) }
    }

    private static let runners: Set<String> = [
        "sh", "bash", "dash", "ash", "zsh", "ksh", "ksh93", "mksh", "fish", "csh", "tcsh", "nu", "pwsh", "busybox", "toybox",
        "xterm", "x-terminal-emulator", "gnome-terminal", "kgx", "ptyxis", "konsole", "xfce4-terminal", "mate-terminal", "lxterminal",
        "qterminal", "terminator", "tilix", "kitty", "alacritty", "foot", "urxvt", "rxvt", "st", "wezterm", "ghostty", "xdg-terminal-exec",
        "sudo", "su", "doas", "pkexec", "run0", "gksu", "kdesu", "kdesudo", "ssh", "mosh", "telnet", "at", "xargs", "eval",
    ]
    private static let interpreters: Set<String> = [
        "python", "perl", "ruby", "node", "lua", "php", "awk", "gawk", "mawk", "tclsh", "osascript",
    ]
    private static let codeOptions: Set<String> = ["-c", "-e", "-E", "-r", "--eval", "-p"]
}
