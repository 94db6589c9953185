// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import RelayAgent

/// How a browser comes back from a provider.
struct RedirectOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The port that the browser comes back to, for a provider where http://127.0.0.1:PORT/signed-in is registered.",
            valueName: "port"
        )
    )
    var redirectPort: UInt16?

    func validate(device: Bool, browser: Bool, clientID: String?) throws {
        if device, browser { throw ValidationError("--device and --browser exclude each other.") }
        if redirectPort != nil, device { throw ValidationError("--redirect-port is for a browser on this machine, and excludes --device.") }
        if redirectPort != nil, clientID == nil { throw ValidationError("--redirect-port needs --client-id.") }
    }

    func method(device: Bool, browser: Bool) -> UserSignIn.Method? {
        device ? .device : browser || redirectPort != nil ? .browser : nil
    }
}
