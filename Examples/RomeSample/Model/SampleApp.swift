// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay

/// The names of this sample's app and services, the same on all devices.
enum SampleApp {
    static let id = "org.example.romesample"
    static let name = "Rome sample"
    /// Launches with this scheme go to this app. The other schemes are those that the original's sample
    /// declared.
    static let scheme = "romesample"
    static let schemes = [scheme, "http", "https"]
    static let pingService = AppServiceInfo(name: "pingpong", appID: id)
    static let echoService = AppServiceInfo(name: "echo", appID: id)
    static let account = ConnectedDevicesAccount(id: "me")
    /// The original's sample published this one.
    static let attributes = ["sample_key": "sample_value"]
}
