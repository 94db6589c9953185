// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// Tells systemd what the relay does (sd_notify(3)), if systemd has started it and wants to know. A unit of the type `notify` is started when
/// the relay serves, and not before.
enum ServiceManagerNotice: String {
    case ready = "READY=1"
    case stopping = "STOPPING=1"

    /// Nobody answers, and a notice that is lost changes nothing here.
    func send() {
        #if os(Linux)
        guard let path = ProcessInfo.processInfo.environment["NOTIFY_SOCKET"] else { return }
        var name = Array(path.utf8)
        // A name that begins so is none in the file system (unix(7)).
        if name.first == UInt8(ascii: "@") { name[0] = 0 }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        guard name.count > 1, name.count < MemoryLayout.size(ofValue: address.sun_path) else { return }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
        let length = socklen_t(MemoryLayout.size(ofValue: address.sun_family) + name.count)
        let descriptor = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        let text = Array(rawValue.utf8)
        withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                _ = sendto(descriptor, text, text.count, CInt(MSG_NOSIGNAL), $0, length)
            }
        }
        #endif
    }
}
