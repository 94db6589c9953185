// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import PackageDescription

let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]

let package = Package(
    name: "device-relay",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [
        .library(name: "RelayProtocol", targets: ["RelayProtocol"])
    ],
    traits: [
        .default(enabledTraits: ["Server"]),
        .trait(name: "Server", description: "The relay service; without it only the SDK's dependencies are resolved."),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.0"),
    ],
    targets: [
        .target(
            name: "RelayProtocol",
            dependencies: [
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "NIOCore", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "RelayProtocolTests",
            dependencies: [
                "RelayProtocol",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "NIOCore", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),
    ]
)

// Benchmarks and fuzz targets use package symbols, so they live in this manifest; users of the package do not see them.
if ProcessInfo.processInfo.environment["DEVICE_RELAY_BENCHMARKS"] != nil {
    package.targets.append(
        .executableTarget(
            name: "RelayProtocolBenchmarks",
            dependencies: ["RelayProtocol", .product(name: "NIOCore", package: "swift-nio")],
            path: "Benchmarks/RelayProtocolBenchmarks",
            swiftSettings: settings
        )
    )
}

if ProcessInfo.processInfo.environment["DEVICE_RELAY_FUZZING"] != nil {
    for name in ["FuzzCBOR", "FuzzControl", "FuzzJSON", "FuzzSealed", "FuzzSession"] {
        package.targets.append(
            .executableTarget(
                name: name,
                dependencies: ["RelayProtocol", .product(name: "NIOCore", package: "swift-nio")],
                path: "FuzzTesting/\(name)",
                swiftSettings: settings
            )
        )
    }
}
